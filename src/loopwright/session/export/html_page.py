"""The page around an exported session: its style and its policy. No script, no other file.

Not here: what stands on it (html).
"""

from __future__ import annotations

__all__ = ["POLICY", "STYLE"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page asks nobody for anything and runs nothing, whatever stands on it."""

STYLE = """\
:root { color-scheme: light dark; --back: #fff; --text: #1c1e21; --soft: #5c6370; --line: #d9dce1;
  --user: #eef4ff; --code: #f5f6f8; --bad: #b3261e; --link: #0b57d0;
  --added: #dcf5e3; --removed: #fde4e2 }
@media (prefers-color-scheme: dark) { :root { --back: #15171a; --text: #e4e6ea; --soft: #9aa1ac;
  --line: #33373d; --user: #1d2736; --code: #1f2226; --bad: #ff8a80; --link: #8ab4f8;
  --added: #16351f; --removed: #46201f } }
* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100% }
body { margin: 0 auto; max-width: 54rem; padding: 1rem; background: var(--back);
  color: var(--text); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--line) }
a { color: var(--link) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0 0 1.5rem }
dt, .about { color: var(--soft) }
dd { margin: 0 }
article { margin: 1rem 0; padding: .25rem 0 .25rem .9rem; border-left: 3px solid var(--line) }
article.user { background: var(--user); border-color: var(--link); border-radius: 0 .4rem .4rem 0;
  padding-right: .9rem }
article.bad { border-color: var(--bad) }
article.tool { margin-left: .9rem }
.about { font-size: .85rem; margin: 0 }
.about strong, .about code { color: var(--text) }
.bad > .about strong, .bad > .about .note:nth-of-type(1), .wrong { color: var(--bad) }
.note, .when { white-space: nowrap }
.note + .note::before, .note + .when::before { content: "· " }
strong, code, .label, .note { unicode-bidi: isolate }
.label { border: 1px solid currentColor; border-radius: .6rem; padding: 0 .4rem; margin-left: .3rem }
.said > :first-child { margin-top: .3rem }
.said > :last-child { margin-bottom: .3rem }
.plain { white-space: pre-wrap; margin: .3rem 0; unicode-bidi: plaintext }
pre { background: var(--code); border-radius: .4rem; padding: .6rem .8rem; margin: .5rem 0;
  overflow-x: auto; white-space: pre-wrap; font: .85rem/1.45 ui-monospace, monospace }
code { background: var(--code); border-radius: .25rem; padding: 0 .2rem;
  font: .9em ui-monospace, monospace }
pre code { background: none; padding: 0; font-size: inherit }
pre.command::before { content: "$ "; color: var(--soft) }
ins, del { display: block; margin: 0 -.8rem; padding: 0 .8rem; text-decoration: none }
ins { background: var(--added) }
del { background: var(--removed) }
details { margin: .4rem 0 }
summary { cursor: pointer; color: var(--soft) }
img { max-width: 100%; height: auto; border-radius: .4rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left }
blockquote { margin: .5rem 0; padding-left: .8rem; border-left: 3px solid var(--line) }
@media print { body { max-width: none; font-size: 10pt } article, pre { break-inside: auto }
  .about { break-after: avoid } }
"""
