// The little Markdown of the guidelines: headings, paragraphs, lists, bold, italic. All of it becomes text.

import { el } from "./dom.js";

/** The elements of a Markdown text. */
export function markdown(text) {
  const blocks = [];
  let list = null;
  let lines = [];
  const finish = () => {
    if (lines.length) blocks.push(el("p", {}, ...inline(joined(lines))));
    lines = [];
  };
  for (const line of text.split("\n")) {
    const heading = /^(#{1,4})\s+(.*)$/.exec(line);
    const item = /^(?:[*-]|\d+\.)\s+(.*)$/.exec(line);
    if (item) {
      finish();
      const tag = /^\d/.test(line) ? "ol" : "ul";
      if (list?.localName !== tag) blocks.push((list = el(tag)));
      list.append(el("li", {}, ...inline(item[1])));
    } else if (list && /^\s+\S/.test(line)) {
      const last = list.lastChild;
      last.append(line.trim().startsWith("*") ? el("br") : " ", ...inline(line.trim()));
    } else if (heading) {
      finish();
      list = null;
      blocks.push(el(`h${heading[1].length + 1}`, {}, ...inline(heading[2])));
    } else if (line.trim()) {
      list = null;
      lines.push(line.trim());
    } else {
      finish();
    }
  }
  finish();
  return blocks;
}

/** Lines of one paragraph: no space between two Chinese characters. */
const joined = (lines) => lines.join(" ").replace(/(?<=[\u3000-\u9fff\uff00-\uffef]) (?=[\u3000-\u9fff\uff00-\uffef])/g, "");

function inline(text) {
  return text.split(/(\*\*[^*]+\*\*|\*[^*]+\*)/).map((part) => {
    if (part.startsWith("**") && part.length > 4) return el("strong", {}, part.slice(2, -2));
    if (part.startsWith("*") && part.length > 2) return el("em", {}, part.slice(1, -1));
    return document.createTextNode(part);
  });
}
