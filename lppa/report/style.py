"""The page's style: light and dark, one column on a phone and several on a wide screen."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark;
  --page: #f6f6f4; --surface: #fff; --ink: #14140f; --muted: #5f5e58; --rule: #dddcd5;
  --run0: #2a78d6; --run1: #d9541e; --run2: #12875d; --run3: #a87400; --run4: #cf4a83;
  --run5: #5746c0; --run6: #0b7f8c; --run7: #b3372f;
  --phase0: #2a78d6; --phase1: #e08a3c; --phase2: #7fb89f;
  --bad: #b3261e; --bad-back: #fbe9e7; --good: #1b6e3c; --good-back: #e6f4ea;
  --fair: #875500; --fair-back: #fdf2da; --weak: #ffd27d; --on-weak: #4a3000;
  --hidden: #cfead8; --on-hidden: #0f4f29;
  --edge0: #a9a8a0; --edge1: #8494b8; --edge2: #4a63a8; --edge3: #1d2f6f; --on-run0: #fff;
  --heat: 42, 120, 214; --leak: #c5362e; }
@media (prefers-color-scheme: dark) { :root {
  --page: #151513; --surface: #1f1f1c; --ink: #f4f3ee; --muted: #b3b1a8; --rule: #3a3a35;
  --run0: #5a9df0; --run1: #f07d4a; --run2: #3cba8a; --run3: #dba63a; --run4: #ec7fab;
  --run5: #9d90f0; --run6: #45b9c6; --run7: #ee7a70;
  --phase0: #4d92e8; --phase1: #d98a45; --phase2: #7fb89f;
  --bad: #ff9d94; --bad-back: #3d1f1c; --good: #86d6a4; --good-back: #18331f;
  --fair: #f0c060; --fair-back: #382c12; --weak: #8a6100; --on-weak: #fff;
  --hidden: #1d5230; --on-hidden: #d2f5dd;
  --edge0: #6b6a64; --edge1: #7d8bab; --edge2: #a3b6e6; --edge3: #e4ebff; --on-run0: #10100e;
  --heat: 90, 157, 240; --leak: #c9423a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 20px 16px 48px; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 32px 0 10px; }
h3, h4 { font-size: .95rem; margin: 0; overflow-wrap: anywhere; }
p { margin: 0 0 8px; overflow-wrap: anywhere; }
.note, small, caption { color: var(--muted); font-size: .85rem; line-height: 1.4; }
.status { display: inline-block; padding: 1px 10px; border-radius: 999px; font-size: .85rem;
  border: 1px solid var(--rule); background: var(--surface); overflow-wrap: anywhere; }
.status.completed { color: var(--good); background: var(--good-back); border-color: transparent; }
.status.failed, .status.doubtful, .status.interrupted { color: var(--bad);
  background: var(--bad-back);
  border-color: transparent; border-radius: 10px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(240px, 45%), 1fr));
  gap: 10px; margin: 16px 0 0; }
.cards > div, figure, .verdict, .panel { background: var(--surface);
  border: 1px solid var(--rule); border-radius: 10px; padding: 12px 14px; margin: 0; min-width: 0; }
dt { color: var(--muted); font-size: .85rem; }
dd { margin: 0; font-size: 1.3rem; font-weight: 600; line-height: 1.3; }
dd.note { font-weight: 400; font-size: .82rem; }
.bad { color: var(--bad); } .fair { color: var(--fair); } .good { color: var(--good); }
.charts, .gallery { display: grid; gap: 12px;
  grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); align-items: start; }
.maps { grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); }
.gallery, .broad { grid-template-columns: repeat(auto-fill, minmax(min(520px, 100%), 1fr)); }
.stack { display: grid; gap: 12px; }
figure { display: flex; flex-direction: column; gap: 8px; }
.charts > figure { height: 100%; }
figcaption p { margin: 2px 0 0; }
svg.chart { display: block; width: 100%; height: auto; max-width: 520px; margin: 0 auto; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  fill: var(--muted); }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .base { stroke: var(--muted); stroke-width: 1; }
.c0 { --c: var(--run0); } .c1 { --c: var(--run1); } .c2 { --c: var(--run2); }
.c3 { --c: var(--run3); } .c4 { --c: var(--run4); } .c5 { --c: var(--run5); }
.c6 { --c: var(--run6); } .c7 { --c: var(--run7); }
svg .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
svg .dashed { stroke-dasharray: 6 4; }
svg .dotted { stroke-dasharray: 2 3; }
svg g > circle { fill: var(--c); }
svg .band { fill: var(--c); fill-opacity: .18; }
.e0 { --e: var(--edge0); --w: 1px; } .e1 { --e: var(--edge1); --w: 1.7px; }
.e2 { --e: var(--edge2); --w: 2.6px; } .e3 { --e: var(--edge3); --w: 3.6px; }
svg .edge { fill: none; stroke: var(--e); stroke-width: var(--w); }
svg .thin { stroke-width: calc(var(--w) / 3); }
svg .head { fill: var(--e); }
.stroke { display: inline-block; width: 26px; margin-right: 6px; vertical-align: middle;
  border-top: var(--w) solid var(--e); }
.ball { display: inline-block; width: 12px; height: 12px; border-radius: 6px; margin-right: 6px;
  vertical-align: -1px; background: var(--run0); }
svg .node circle { fill: var(--run0); stroke: var(--surface); stroke-width: 2; }
svg .node text { fill: var(--on-run0); font-weight: 600; }
svg .on { fill: var(--ink); font-size: 11.5px; paint-order: stroke; stroke: var(--surface);
  stroke-width: 3px; stroke-linejoin: round; }
svg .cell { fill: var(--run0); }
svg .cell ~ .on { stroke: none; }
svg .inside { fill: #14140f; font-size: 11.5px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; list-style: none; margin: 0; padding: 0;
  font-size: .85rem; }
.legend li { overflow-wrap: anywhere; min-width: 0; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px;
  background: var(--c); }
img { max-width: 100%; height: auto; display: block; }
.matrix { image-rendering: pixelated; width: 100%; max-width: 360px; margin: 0 auto;
  border: 1px solid var(--rule); }
.stretched { aspect-ratio: 4 / 3; height: auto; }
.paper { background: #fff; border-radius: 6px; padding: 4px; }
.paper img { max-width: none; margin: 0 auto; } .paper .wide { --cover: #fff; }
.whole { grid-column: 1 / -1; }
.wide { overflow-x: auto; max-width: 100%; }
/* What lies beyond the right edge shows by a fade, which is gone at the end of the scroll. */
@property --more { syntax: "<length>"; inherits: false; initial-value: 0px; }
@keyframes more { from { --more: 40px; } to { --more: 0px; } }
@supports (animation-timeline: scroll()) { .wide {
  animation: more linear; animation-timeline: scroll(self inline);
  mask-image: linear-gradient(to left, transparent, #000 var(--more)); } }
/* Browsers without such timelines get a shadow at the edge that covers at both ends hide. */
@supports not (animation-timeline: scroll()) { .wide { background:
  linear-gradient(to left, var(--cover) 50%, transparent) 100% 0 / 40px 100% no-repeat local,
  linear-gradient(to left, #0006, transparent) 100% 0 / 16px 100% no-repeat scroll; } }
.wide { --cover: var(--page); } figure .wide { --cover: var(--surface); }
.swipe { display: none; }
@media (max-width: 480px) { .swipe { display: block; } }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px 4px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--rule); }
td { overflow-wrap: anywhere; }
tbody th { font-weight: 400; color: var(--muted); white-space: nowrap; }
.scores { font-size: .85rem; } .scores th, .scores td { white-space: nowrap; padding-right: 7px; }
.figures { width: 100%; } .figures td, .figures thead th + th { min-width: 120px; }
.figures small { font-weight: 400; }
/* The names of the rows stay where they are while the runs scroll by. */
.figures th:first-child { position: sticky; left: 0; background: var(--page); }
.ended.failed, .ended.doubtful, .ended.interrupted, .mark { color: var(--bad); font-weight: 600; }
.mark { display: block; font-size: .85rem; }
.heat { margin: 0 auto; font-size: .82rem; }
.heat th, .heat td { text-align: center; padding: 4px 3px;
  min-width: 36px; border: 2px solid var(--surface); white-space: nowrap;
  vertical-align: middle; }
@media (max-width: 480px) { .heat th, .heat td { padding: 4px 1px; } }
.heat caption { caption-side: bottom; padding-top: 4px; white-space: nowrap; }
.heat td { border-radius: 4px; }
.leak { background: var(--leak); color: #fff; font-weight: 600; }
.some { background: rgba(var(--heat), calc(.1 + .45 * var(--share, .6))); }
.none { color: var(--muted); background: rgba(128, 128, 128, .12); }
.key { display: inline-block; padding: 0 6px; border-radius: 4px; color: var(--ink); }
.key.leak { color: #fff; }
.grade.bad { background: var(--leak); color: #fff; }
.grade.fair { background: var(--weak); color: var(--on-weak); }
.grade.good { background: var(--hidden); color: var(--on-hidden); }
.key.grade { font-weight: 600; box-shadow: inset 0 0 0 1px #0003; }
.heat small { display: block; color: inherit; font-size: inherit; }
.meanings { list-style: none; margin: 0; padding: 0; } .meanings li { margin-bottom: 6px; }
.verdict { border-left-width: 5px; margin-bottom: 12px; color: var(--ink); }
.verdict.bad { border-color: var(--bad); background: var(--bad-back); }
.verdict.fair { border-color: var(--fair); background: var(--fair-back); }
.verdict.good { border-color: var(--good); background: var(--good-back); }
.maps { margin-bottom: 12px; }
.verdict p:last-child { margin: 0; }
.leaks { color: var(--bad); } .holds { color: var(--good); }
.attention { color: var(--bad); background: var(--bad-back); border: 2px solid var(--bad);
  border-radius: 10px; padding: 10px 14px; margin: 12px 0 0; }
.attention h2 { margin: 0 0 4px; font-size: 1rem; }
.attention ul { margin: 0; padding-left: 20px; overflow-wrap: anywhere; }
details { margin: 12px 0 0; } summary { cursor: pointer; overflow-wrap: anywhere; }
"""
