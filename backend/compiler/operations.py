"""Which operations work element by element, and fuse with their like? Which do more than compute?"""

from __future__ import annotations

ELEMENTWISE = frozenset(
    """abs acos acosh add and asin asinh atan atan2 atanh bessel_i1e cbrt ceil clamp complex cosh cosine
    count_leading_zeros digamma divide erf erf_inv erfc exponential exponential_minus_one floor imag is_finite
    is_inf is_neg_inf is_pos_inf lgamma log log_plus_one logistic maximum minimum mulhi multiply negate next_after
    not or polygamma popcnt power real remainder round_nearest_afz round_nearest_even rsqrt select shift_left
    shift_right_arithmetic shift_right_logical sign sine sinh sqrt square subtract tan tanh xor zeta conj""".split()
)

HOST_TRANSFERS = frozenset({"send", "recv"})
"""They move values to the script's callbacks and back: done once each, in order, whoever needs the results."""
