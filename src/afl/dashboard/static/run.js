// The page of a run: the graph that moves, the panel beside it, the log.

import { startGraph } from "./graph.js";
import { startLog } from "./log.js";
import { startPanel } from "./panel.js";

startPanel();
startGraph();
startLog();
