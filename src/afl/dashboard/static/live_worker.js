// The stream of all pages of this browser. A page sends the topics that it watches; none when it is hidden or left.

import { Topics } from "./topics.js";

const topics = new Topics();

self.addEventListener("connect", ({ ports: [port] }) => {
  const tell = (event) => port.postMessage(event);
  port.addEventListener("message", ({ data }) => topics.watch(tell, data));
  port.start();
});
