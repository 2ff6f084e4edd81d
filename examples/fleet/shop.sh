# Sends the sales of a shop; the shop in the south needs a second call.
[ "$1" = south ] && [ "$AFL_TASK_ATTEMPT" = 1 ] && { echo "the line is busy" >&2; exit 1; }
echo "shop $1 sold $2"
