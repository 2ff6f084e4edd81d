// Everything that every page has. Pages work without it; with it they are live, and quicker to use.

import { startLive } from "./live.js";
import { startKeys } from "./keys.js";
import { startClocks } from "./clocks.js";
import { startSmallThings } from "./small.js";

startSmallThings(document);
startClocks();
startKeys();
startLive();
