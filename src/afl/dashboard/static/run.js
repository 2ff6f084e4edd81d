// The page of a run: the graph that moves, and the panel beside it.

import { startGraph } from "./graph.js";
import { startPanel } from "./panel.js";

startPanel();
startGraph();
