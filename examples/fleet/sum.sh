# A parameter arrives as an argument: whatever it holds, it is one word here.
echo "$1: 42 sold"
