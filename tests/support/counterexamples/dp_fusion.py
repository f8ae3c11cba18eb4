"""DP-Fusion between two secrets: one step over two tokens exceeds the claimed (epsilon, delta). Needs no package.

The order is 2, beta is 0.1, and the public law is q = (1 - s, s) with s = 1e-5. Each mixture p = (1 - y, y) must have
D_2(p || q) and D_2(q || p) of at most 2 beta = 0.2. D_2(p || q) = ln(1 + (y - s)^2 / (s (1 - s))), and D_2(q || p) has
y (1 - y) in the denominator. So the largest and the smallest possible y are roots of quadratic equations. One secret
leads to the largest y, another to the smallest. The claim is 4 beta + ln(1 / delta) at delta 1e-5. Prints a JSON
object.
"""

import json
import sys
from decimal import Decimal, getcontext

RARE, BETA, DELTA = Decimal("1e-5"), Decimal("0.1"), Decimal("1e-5")


def main() -> dict[str, object]:
    """Return the claimed epsilon and delta, the delta attained at this epsilon, and divergences of order 2."""
    getcontext().prec = 60
    s, grown = RARE, (2 * BETA).exp() - 1
    above = s + (grown * s * (1 - s)).sqrt()
    middle = 2 * s + grown
    below = (middle - (middle**2 - 4 * (1 + grown) * s * s).sqrt()) / (2 * (1 + grown))
    assert all((y - s) ** 2 / (z * (1 - z)) <= grown * (1 + Decimal("1e-40")) for y in (above, below) for z in (s, y))
    claimed = 4 * BETA - DELTA.ln()
    attained = above - claimed.exp() * below
    divergence = (1 + (above - below) ** 2 / (below * (1 - below))).ln()
    return {
        "claimed": float(claimed),
        "claimed_delta": float(DELTA),
        "attained_delta": float(attained),
        "claimed_divergence": float(4 * BETA),
        "attained_divergence": float(divergence),
        "without_epsilometer": "epsilometer" not in sys.modules,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
