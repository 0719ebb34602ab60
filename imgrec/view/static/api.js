// Requests to the server. All addresses are relative to that of the page, which holds the token.

import { selection } from "./query.js";

const KINDS = ["image/jpeg", "image/png", "image/bmp"];
const HEAD = 9; // number u32, kind u8, length u32

async function json(address, options) {
  const answer = await fetch(address, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

export const getDataset = () => json("api/dataset");

export function getPage(state, start, count, signal) {
  const parameters = selection(state);
  parameters.set("start", start);
  parameters.set("count", count);
  return json(`api/page?${parameters}`, { signal });
}

export function getRecord(state, number, signal) {
  const parameters = selection(state);
  parameters.set("n", number);
  return json(`api/record?${parameters}`, { signal });
}

/** Decide about some records, and save it; return what was done. */
export async function decide(order) {
  const headers = { "Content-Type": "application/json" };
  return (await json("api/decide", { method: "POST", headers, body: JSON.stringify(order) })).done;
}

export const imageAddress = (number) => `image?n=${number}`;

/** Request thumbnails; call `onFrame(number, blob, fault)` for each as it arrives. */
export async function getThumbnails(numbers, side, onFrame, signal) {
  const answer = await fetch(`api/thumbnails?side=${side}&n=${numbers.join(",")}`, { signal });
  if (!answer.ok) throw new Error((await answer.json()).error);
  const reader = answer.body.getReader();
  let rest = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const data = new Uint8Array(rest.length + value.length);
    data.set(rest);
    data.set(value, rest.length);
    rest = data.subarray(take(data, onFrame));
  }
}

/** Pass on the complete frames at the start of some bytes; return where they end. */
function take(data, onFrame) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let at = 0;
  while (at + HEAD <= data.length) {
    const [number, kind, length] = [view.getUint32(at), view.getUint8(at + 4), view.getUint32(at + 5)];
    if (at + HEAD + length > data.length) break;
    const content = data.slice(at + HEAD, at + HEAD + length);
    if (kind < KINDS.length) onFrame(number, new Blob([content], { type: KINDS[kind] }), "");
    else onFrame(number, null, new TextDecoder().decode(content));
    at += HEAD + length;
  }
  return at;
}
