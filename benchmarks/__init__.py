"""How fast loopwright is: ratios to bare asyncio, measured in one run on one core.

`python -m benchmarks` prints the table; README.md says what each line means. Not part of the
package: nothing in `src` imports this.
"""
