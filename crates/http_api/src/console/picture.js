// A flowchart as SVG, from the few lines of Mermaid that the server writes: nodes in rows, arrows between them.

import { plain, svg } from './dom.js';

const [WIDTH, HEIGHT, GAP, ROW] = [190, 46, 26, 92];
const NODE = /^(\w+)(\[\[|\[\/|\[|\{\{|\{|\(\[|>)"?(.*?)"?(\]\]|\/\]|\]|\}\}|\}|\]\))$/;
const ARROW = /^(\w+) -->(?:\|"(.*)"\|)? (\w+)$/;
const unquoted = (text) => text.replaceAll('#quot;', '"').replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');

function read(mermaid) {
  const [nodes, arrows] = [new Map(), []];
  for (const line of mermaid.split('\n').slice(1).map((part) => part.trim())) {
    const arrow = ARROW.exec(line);
    const node = arrow ? null : NODE.exec(line);
    if (arrow) arrows.push({ from: arrow[1], label: unquoted(arrow[2] ?? ''), to: arrow[3] });
    else if (node) nodes.set(node[1], { id: node[1], shape: node[2], lines: node[3].split('<br/>').map(unquoted) });
  }
  return { nodes, arrows: arrows.filter((arrow) => nodes.has(arrow.from) && nodes.has(arrow.to)) };
}

/// Below whatever leads to it; an arrow that leads back to where one came from counts for nothing.
function rows(nodes, arrows) {
  const [order, open, done] = [[], new Set(), new Set()];
  const visit = (id) => {
    open.add(id);
    for (const arrow of arrows.filter((one) => one.from === id)) {
      arrow.isBack = open.has(arrow.to);
      if (!arrow.isBack && !done.has(arrow.to)) visit(arrow.to);
    }
    open.delete(id);
    done.add(id);
    order.unshift(id);
  };
  ['start', ...nodes.keys()].forEach((id) => { if (nodes.has(id) && !done.has(id)) visit(id); });
  const depth = new Map(order.map((id) => [id, 0]));
  for (const id of order) {
    for (const arrow of arrows.filter((one) => one.from === id && !one.isBack)) {
      depth.set(arrow.to, Math.max(depth.get(arrow.to), depth.get(id) + 1));
    }
  }
  const found = [];
  for (const id of order) (found[depth.get(id)] ??= []).push(nodes.get(id));
  return found.filter(Boolean);
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export function picture(mermaid) {
  const { nodes, arrows } = read(mermaid);
  const lines = rows(nodes, arrows);
  const most = Math.max(...lines.map((line) => line.length));
  const [width, height] = [most * (WIDTH + GAP) + 120, lines.length * ROW];
  lines.forEach((line, row) => line.forEach((node, at) => {
    node.x = width / 2 + (at - (line.length - 1) / 2) * (WIDTH + GAP);
    node.y = row * ROW + HEIGHT / 2 + 8;
  }));
  const drawn = arrows.map((arrow) => {
    const [from, to] = [nodes.get(arrow.from), nodes.get(arrow.to)];
    const isDown = from.y < to.y;
    const isFar = Math.abs(to.y - from.y) > ROW + 1;
    const side = width - 40;
    const path = isDown && !isFar
      ? `M${from.x} ${from.y + HEIGHT / 2}C${from.x} ${from.y + ROW / 2 + 14} ${to.x} ${to.y - ROW / 2 - 14} ${to.x} ${to.y - HEIGHT / 2 - 5}`
      : `M${from.x + WIDTH / 2} ${from.y}C${side} ${from.y} ${side} ${to.y} ${to.x + WIDTH / 2 + 5} ${to.y}`;
    const [x, y] = isDown && !isFar ? [(from.x + to.x) / 2, (from.y + to.y) / 2 + 3] : [side - 20, (from.y + to.y) / 2];
    return svg('g', { class: 'arrow' }, svg('path', { d: path, 'marker-end': 'url(#head)' }),
      arrow.label && svg('text', { x, y, 'text-anchor': 'middle' }, svg('title', null, arrow.label), short(arrow.label, 30)));
  });
  const boxes = [...nodes.values()].map((node) => {
    const radius = node.shape === '([' ? HEIGHT / 2 : 6;
    const kind = { '[[': 'call', '{': 'choice', '{{': 'loop', '([': 'end', '>': 'raise' }[node.shape] ?? '';
    const at = node.lines.length === 1 ? [5] : [-4, 13];
    return svg('g', { class: `node ${kind}` }, svg('title', null, node.lines.join(' – ')),
      svg('rect', { x: node.x - WIDTH / 2, y: node.y - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: radius }),
      node.lines.slice(0, 2).map((line, row) => svg('text', { x: node.x, y: node.y + at[row], 'text-anchor': 'middle', class: row === 0 ? 'name' : '' }, short(line, 26))));
  });
  const said = `A flowchart of ${nodes.size - 2} steps: ${[...nodes.values()].map((node) => node.lines[0]).join(', ')}`;
  return svg('svg', { class: 'picture', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': plain(said) },
    svg('defs', null, svg('marker', { id: 'head', viewBox: '0 0 8 8', refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' },
      svg('path', { d: 'M0 0L8 4L0 8z' }))), drawn, boxes);
}
