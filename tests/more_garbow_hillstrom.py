"""The 35 problems of Moré, Garbow and Hillstrom (ACM TOMS 7, 1981), with Jacobians written by hand.

Each is `Nonlinear(residuals, jacobian, start)`; the sizes of those of variable dimension are small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Nonlinear(NamedTuple):
    """Residuals, their Jacobian, and the standard starting point."""

    residuals: Callable[[Any], Any]
    jacobian: Callable[[Any], Any]
    start: Any


def rows(*parts: Any) -> Any:
    """The rows of a matrix, each given by its entries."""
    return np.array([[float(entry) for entry in row] for row in parts])


def columns(*parts: Any) -> Any:
    """The columns of a matrix."""
    return np.stack(np.broadcast_arrays(*parts), axis=1)


def rosenbrock(x: Any) -> Any:
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def rosenbrock_jac(x: Any) -> Any:
    return rows((-20 * x[0], 10), (-1, 0))


def freudenstein_roth(x: Any) -> Any:
    a, b = x
    return np.array([-13 + a + ((5 - b) * b - 2) * b, -29 + a + ((b + 1) * b - 14) * b])


def freudenstein_roth_jac(x: Any) -> Any:
    return rows((1, 10 * x[1] - 3 * x[1] ** 2 - 2), (1, 3 * x[1] ** 2 + 2 * x[1] - 14))


def powell_badly_scaled(x: Any) -> Any:
    return np.array([1e4 * x[0] * x[1] - 1, np.exp(-x[0]) + np.exp(-x[1]) - 1.0001])


def powell_badly_scaled_jac(x: Any) -> Any:
    return rows((1e4 * x[1], 1e4 * x[0]), (-np.exp(-x[0]), -np.exp(-x[1])))


def brown_badly_scaled(x: Any) -> Any:
    return np.array([x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2])


def brown_badly_scaled_jac(x: Any) -> Any:
    return rows((1, 0), (0, 1), (x[1], x[0]))


def beale(x: Any) -> Any:
    i = np.arange(1, 4)
    return np.array([1.5, 2.25, 2.625]) - x[0] * (1 - x[1] ** i)


def beale_jac(x: Any) -> Any:
    i = np.arange(1, 4)
    return columns(-(1 - x[1] ** i), x[0] * i * x[1] ** (i - 1))


def jennrich_sampson(x: Any) -> Any:
    i = np.arange(1, 11)
    return 2 + 2 * i - (np.exp(i * x[0]) + np.exp(i * x[1]))


def jennrich_sampson_jac(x: Any) -> Any:
    i = np.arange(1, 11)
    return columns(-i * np.exp(i * x[0]), -i * np.exp(i * x[1]))


def helical_valley(x: Any) -> Any:
    angle = np.arctan(x[1] / x[0]) / (2 * np.pi) + (0.5 if x[0] < 0 else 0.0)
    return np.array([10 * (x[2] - 10 * angle), 10 * (np.sqrt(x[0] ** 2 + x[1] ** 2) - 1), x[2]])


def helical_valley_jac(x: Any) -> Any:
    square = x[0] ** 2 + x[1] ** 2
    turn = 50 / (np.pi * square)
    return rows(
        (turn * x[1], -turn * x[0], 10), (10 * x[0] / np.sqrt(square), 10 * x[1] / np.sqrt(square), 0), (0, 0, 1)
    )


BARD_Y = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])
BARD_U = np.arange(1.0, 16)
BARD_V = 16 - BARD_U
BARD_W = np.minimum(BARD_U, BARD_V)


def bard(x: Any) -> Any:
    return BARD_Y - (x[0] + BARD_U / (BARD_V * x[1] + BARD_W * x[2]))


def bard_jac(x: Any) -> Any:
    shared = BARD_U / (BARD_V * x[1] + BARD_W * x[2]) ** 2
    return columns(-np.ones(15), shared * BARD_V, shared * BARD_W)


HALF = [0.0009, 0.0044, 0.0175, 0.0540, 0.1295, 0.2420, 0.3521]
GAUSSIAN_Y = np.array([*HALF, 0.3989, *HALF[::-1]])
GAUSSIAN_T = (8 - np.arange(1.0, 16)) / 2


def gaussian(x: Any) -> Any:
    return x[0] * np.exp(-x[1] * (GAUSSIAN_T - x[2]) ** 2 / 2) - GAUSSIAN_Y


def gaussian_jac(x: Any) -> Any:
    off = GAUSSIAN_T - x[2]
    bell = np.exp(-x[1] * off**2 / 2)
    return columns(bell, -x[0] * bell * off**2 / 2, x[0] * bell * x[1] * off)


MEYER_Y = np.array(
    [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872.0]
)
MEYER_T = 45 + 5 * np.arange(1.0, 17)


def meyer(x: Any) -> Any:
    return x[0] * np.exp(x[1] / (MEYER_T + x[2])) - MEYER_Y


def meyer_jac(x: Any) -> Any:
    below = MEYER_T + x[2]
    grown = np.exp(x[1] / below)
    return columns(grown, x[0] * grown / below, -x[0] * grown * x[1] / below**2)


GULF_T = np.arange(1, 11) / 100
GULF_Y = 25 + (-50 * np.log(GULF_T)) ** (2 / 3)


def gulf(x: Any) -> Any:
    return np.exp(-(np.abs(GULF_Y - x[1]) ** x[2]) / x[0]) - GULF_T


def gulf_jac(x: Any) -> Any:
    off = np.abs(GULF_Y - x[1])
    power = off ** x[2] / x[0]
    decay = np.exp(-power)
    return columns(
        decay * power / x[0],
        decay * power * x[2] / off * np.sign(GULF_Y - x[1]),
        -decay * power * np.log(off),
    )


BOX_T = 0.1 * np.arange(1, 11)


def box(x: Any) -> Any:
    return np.exp(-BOX_T * x[0]) - np.exp(-BOX_T * x[1]) - x[2] * (np.exp(-BOX_T) - np.exp(-10 * BOX_T))


def box_jac(x: Any) -> Any:
    return columns(
        -BOX_T * np.exp(-BOX_T * x[0]), BOX_T * np.exp(-BOX_T * x[1]), -(np.exp(-BOX_T) - np.exp(-10 * BOX_T))
    )


def powell_singular(x: Any) -> Any:
    return np.array(
        [x[0] + 10 * x[1], np.sqrt(5) * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, np.sqrt(10) * (x[0] - x[3]) ** 2]
    )


def powell_singular_jac(x: Any) -> Any:
    inner, outer = 2 * (x[1] - 2 * x[2]), 2 * np.sqrt(10) * (x[0] - x[3])
    return rows((1, 10, 0, 0), (0, 0, np.sqrt(5), -np.sqrt(5)), (0, inner, -2 * inner, 0), (outer, 0, 0, -outer))


def wood(x: Any) -> Any:
    return np.array(
        [
            10 * (x[1] - x[0] ** 2),
            1 - x[0],
            np.sqrt(90) * (x[3] - x[2] ** 2),
            1 - x[2],
            np.sqrt(10) * (x[1] + x[3] - 2),
            (x[1] - x[3]) / np.sqrt(10),
        ]
    )


def wood_jac(x: Any) -> Any:
    return rows(
        (-20 * x[0], 10, 0, 0),
        (-1, 0, 0, 0),
        (0, 0, -2 * np.sqrt(90) * x[2], np.sqrt(90)),
        (0, 0, -1, 0),
        (0, np.sqrt(10), 0, np.sqrt(10)),
        (0, 1 / np.sqrt(10), 0, -1 / np.sqrt(10)),
    )


KOWALIK_Y = np.array([0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
KOWALIK_U = np.array([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def kowalik_osborne(x: Any) -> Any:
    u = KOWALIK_U
    return KOWALIK_Y - x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])


def kowalik_osborne_jac(x: Any) -> Any:
    u = KOWALIK_U
    above, below = u**2 + u * x[1], u**2 + u * x[2] + x[3]
    return columns(-above / below, -x[0] * u / below, x[0] * above * u / below**2, x[0] * above / below**2)


DENNIS_T = np.arange(1, 21) / 5


def brown_dennis(x: Any) -> Any:
    t = DENNIS_T
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


def brown_dennis_jac(x: Any) -> Any:
    t = DENNIS_T
    one, other = 2 * (x[0] + t * x[1] - np.exp(t)), 2 * (x[2] + x[3] * np.sin(t) - np.cos(t))
    return columns(one, one * t, other, other * np.sin(t))


OSBORNE_1_T = 10 * np.arange(33.0)
# fmt: off
OSBORNE_1_Y = np.array([
    0.844, 0.908, 0.932, 0.936, 0.925, 0.908, 0.881, 0.850, 0.818, 0.784, 0.751, 0.718, 0.685, 0.658, 0.628,
    0.603, 0.580, 0.558, 0.538, 0.522, 0.506, 0.490, 0.478, 0.467, 0.457, 0.448, 0.438, 0.431, 0.424, 0.420,
    0.414, 0.411, 0.406,
])
# fmt: on


def osborne_1(x: Any) -> Any:
    t = OSBORNE_1_T
    return OSBORNE_1_Y - (x[0] + x[1] * np.exp(-t * x[3]) + x[2] * np.exp(-t * x[4]))


def osborne_1_jac(x: Any) -> Any:
    t = OSBORNE_1_T
    one, other = np.exp(-t * x[3]), np.exp(-t * x[4])
    return columns(-np.ones(33), -one, -other, x[1] * t * one, x[2] * t * other)


BIGGS_T = 0.1 * np.arange(1, 14)
BIGGS_Y = np.exp(-BIGGS_T) - 5 * np.exp(-10 * BIGGS_T) + 3 * np.exp(-4 * BIGGS_T)


def biggs(x: Any) -> Any:
    t = BIGGS_T
    return x[2] * np.exp(-t * x[0]) - x[3] * np.exp(-t * x[1]) + x[5] * np.exp(-t * x[4]) - BIGGS_Y


def biggs_jac(x: Any) -> Any:
    t = BIGGS_T
    a, b, c = np.exp(-t * x[0]), np.exp(-t * x[1]), np.exp(-t * x[4])
    return columns(-t * x[2] * a, t * x[3] * b, a, -b, -t * x[5] * c, c)


OSBORNE_2_T = np.arange(65) / 10
# fmt: off
OSBORNE_2_Y = np.array([
    1.366, 1.191, 1.112, 1.013, 0.991, 0.885, 0.831, 0.847, 0.786, 0.725, 0.746, 0.679, 0.608, 0.655, 0.616,
    0.606, 0.602, 0.626, 0.651, 0.724, 0.649, 0.649, 0.694, 0.644, 0.624, 0.661, 0.612, 0.558, 0.533, 0.495,
    0.500, 0.423, 0.395, 0.375, 0.372, 0.391, 0.396, 0.405, 0.428, 0.429, 0.523, 0.562, 0.607, 0.653, 0.672,
    0.708, 0.633, 0.668, 0.645, 0.632, 0.591, 0.559, 0.597, 0.625, 0.739, 0.710, 0.729, 0.720, 0.636, 0.581,
    0.428, 0.292, 0.162, 0.098, 0.054,
])
# fmt: on


def osborne_2(x: Any) -> Any:
    t = OSBORNE_2_T
    bells = sum(x[1 + k] * np.exp(-((t - x[8 + k]) ** 2) * x[5 + k]) for k in range(3))
    return OSBORNE_2_Y - (x[0] * np.exp(-t * x[4]) + bells)


def osborne_2_jac(x: Any) -> Any:
    t = OSBORNE_2_T
    decay, off = np.exp(-t * x[4]), [t - x[8 + k] for k in range(3)]
    bells = [np.exp(-(off[k] ** 2) * x[5 + k]) for k in range(3)]
    return columns(
        -decay,
        *(-bell for bell in bells),
        x[0] * t * decay,
        *(x[1 + k] * off[k] ** 2 * bells[k] for k in range(3)),
        *(-2 * x[1 + k] * x[5 + k] * off[k] * bells[k] for k in range(3)),
    )


WATSON_T = np.arange(1, 30) / 29


def watson(x: Any) -> Any:
    j = np.arange(1, len(x))
    powers = WATSON_T[:, None] ** np.arange(len(x))
    slope = powers[:, :-1] @ (j * x[1:])
    return np.concatenate([slope - (powers @ x) ** 2 - 1, [x[0], x[1] - x[0] ** 2 - 1]])


def watson_jac(x: Any) -> Any:
    j = np.arange(1, len(x))
    powers = WATSON_T[:, None] ** np.arange(len(x))
    jac = -2 * (powers @ x)[:, None] * powers
    jac[:, 1:] += powers[:, :-1] * j
    last = np.zeros((2, len(x)))
    last[0, 0], last[1, 0], last[1, 1] = 1, -2 * x[0], 1
    return np.concatenate([jac, last])


def blocks(residuals: Any, jacobian: Any, size: int) -> tuple[Any, Any]:
    """The extended problem: the same residuals for each group of variables."""

    def extended(x: Any) -> Any:
        return np.concatenate([residuals(part) for part in x.reshape(-1, size)])

    def extended_jac(x: Any) -> Any:
        jac = np.zeros((len(x), len(x)))
        for k, part in enumerate(x.reshape(-1, size)):
            here = slice(k * size, (k + 1) * size)
            jac[here, here] = jacobian(part)
        return jac

    return extended, extended_jac


PENALTY = np.sqrt(1e-5)


def penalty_1(x: Any) -> Any:
    return np.concatenate([PENALTY * (x - 1), [x @ x - 0.25]])


def penalty_1_jac(x: Any) -> Any:
    return np.concatenate([PENALTY * np.eye(len(x)), 2 * x[None]])


def penalty_2(x: Any) -> Any:
    n = len(x)
    i, grown = np.arange(2, n + 1), np.exp(x / 10)
    wanted = np.exp(i / 10) + np.exp((i - 1) / 10)
    weighted = np.arange(n, 0, -1) @ x**2 - 1
    return np.concatenate(
        [
            [x[0] - 0.2],
            PENALTY * (grown[1:] + grown[:-1] - wanted),
            PENALTY * (grown[1:] - np.exp(-0.1)),
            [weighted],
        ]
    )


def penalty_2_jac(x: Any) -> Any:
    n = len(x)
    slope = PENALTY * np.exp(x / 10) / 10
    jac = np.zeros((2 * n, n))
    jac[0, 0] = 1
    for k in range(1, n):
        jac[k, k], jac[k, k - 1] = slope[k], slope[k - 1]
        jac[n + k - 1, k] = slope[k]
    jac[-1] = 2 * np.arange(n, 0, -1) * x
    return jac


def variably_dimensioned(x: Any) -> Any:
    total = np.arange(1, len(x) + 1) @ (x - 1)
    return np.concatenate([x - 1, [total, total**2]])


def variably_dimensioned_jac(x: Any) -> Any:
    j = np.arange(1.0, len(x) + 1)
    return np.concatenate([np.eye(len(x)), j[None], 2 * (j @ (x - 1)) * j[None]])


def trigonometric(x: Any) -> Any:
    n, i = len(x), np.arange(1, len(x) + 1)
    return n - np.cos(x).sum() + i * (1 - np.cos(x)) - np.sin(x)


def trigonometric_jac(x: Any) -> Any:
    i = np.arange(1, len(x) + 1)
    return np.tile(np.sin(x), (len(x), 1)) + np.diag(i * np.sin(x) - np.cos(x))


def brown_almost_linear(x: Any) -> Any:
    return np.concatenate([x[:-1] + x.sum() - (len(x) + 1), [np.prod(x) - 1]])


def brown_almost_linear_jac(x: Any) -> Any:
    jac = np.ones((len(x), len(x))) + np.eye(len(x))
    jac[-1] = [np.prod(np.delete(x, k)) for k in range(len(x))]
    return jac


def discrete_boundary(x: Any) -> Any:
    h = 1 / (len(x) + 1)
    t = h * np.arange(1, len(x) + 1)
    padded = np.concatenate([[0], x, [0]])
    return 2 * x - padded[:-2] - padded[2:] + h**2 * (x + t + 1) ** 3 / 2


def discrete_boundary_jac(x: Any) -> Any:
    n, h = len(x), 1 / (len(x) + 1)
    t = h * np.arange(1, n + 1)
    return np.diag(2 + 1.5 * h**2 * (x + t + 1) ** 2) - np.eye(n, k=1) - np.eye(n, k=-1)


def discrete_integral(x: Any) -> Any:
    n, h = len(x), 1 / (len(x) + 1)
    t = h * np.arange(1, n + 1)
    cubes = (x + t + 1) ** 3
    return x + h / 2 * (integral_weights(t) @ cubes)


def discrete_integral_jac(x: Any) -> Any:
    n, h = len(x), 1 / (len(x) + 1)
    t = h * np.arange(1, n + 1)
    return np.eye(n) + h / 2 * integral_weights(t) * 3 * (x + t + 1) ** 2


def integral_weights(t: Any) -> Any:
    below = np.tril(np.ones((len(t), len(t))))
    return below * np.outer(1 - t, t) + (1 - below) * np.outer(t, 1 - t)


def broyden_tridiagonal(x: Any) -> Any:
    padded = np.concatenate([[0], x, [0]])
    return (3 - 2 * x) * x - padded[:-2] - 2 * padded[2:] + 1


def broyden_tridiagonal_jac(x: Any) -> Any:
    return np.diag(3 - 4 * x) - np.eye(len(x), k=-1) - 2 * np.eye(len(x), k=1)


def neighbours(n: int) -> Any:
    """Which variables, beside its own, each residual of Broyden's banded function has: five below, one above."""
    off = np.arange(n)[None, :] - np.arange(n)[:, None]
    return ((off >= -5) & (off <= 1) & (off != 0)).astype(float)


def broyden_banded(x: Any) -> Any:
    return x * (2 + 5 * x**2) + 1 - neighbours(len(x)) @ (x * (1 + x))


def broyden_banded_jac(x: Any) -> Any:
    return np.diag(2 + 15 * x**2) - neighbours(len(x)) * (1 + 2 * x)


ROWS = 12


def linear_full_rank(x: Any) -> Any:
    shared = -2 / ROWS * x.sum() - 1
    return np.concatenate([x + shared, np.full(ROWS - len(x), 1.0) * shared])


def linear_full_rank_jac(x: Any) -> Any:
    return np.eye(ROWS, len(x)) - 2 / ROWS


def linear_rank_1(x: Any) -> Any:
    return np.arange(1, ROWS + 1) * (np.arange(1, len(x) + 1) @ x) - 1


def linear_rank_1_jac(x: Any) -> Any:
    return np.outer(np.arange(1.0, ROWS + 1), np.arange(1.0, len(x) + 1))


def linear_rank_1_zeros(x: Any) -> Any:
    total = np.arange(2, len(x)) @ x[1:-1]
    factors = np.concatenate([[0], np.arange(1, ROWS - 1), [0]])
    return factors * total - 1


def linear_rank_1_zeros_jac(x: Any) -> Any:
    factors = np.concatenate([[0], np.arange(1.0, ROWS - 1), [0]])
    return np.outer(factors, np.concatenate([[0], np.arange(2.0, len(x)), [0]]))


def chebyshev(x: Any) -> tuple[Any, Any]:
    """The shifted Chebyshev polynomials of degrees 1 to n at each x, and their derivatives."""
    z, n = 2 * x - 1, len(x)
    values, slopes = [1 + 0 * z, z], [0 * z, 2 + 0 * z]
    for _ in range(2, n + 1):
        values.append(2 * z * values[-1] - values[-2])
        slopes.append(4 * values[-2] + 2 * z * slopes[-1] - slopes[-2])
    return np.stack(values[1:]), np.stack(slopes[1:])


def chebyquad(x: Any) -> Any:
    i = np.arange(1, len(x) + 1)
    integrals = np.where(i % 2 == 1, 0.0, -1 / np.where(i == 1, 2, i**2 - 1))
    return chebyshev(x)[0].mean(1) - integrals


def chebyquad_jac(x: Any) -> Any:
    return chebyshev(x)[1] / len(x)


T = np.arange(1, 9) / 9
_ROSENBROCKS, _POWELLS = blocks(rosenbrock, rosenbrock_jac, 2), blocks(powell_singular, powell_singular_jac, 4)

PROBLEMS: dict[str, Nonlinear] = {
    "Rosenbrock": Nonlinear(rosenbrock, rosenbrock_jac, [-1.2, 1]),
    "Freudenstein and Roth": Nonlinear(freudenstein_roth, freudenstein_roth_jac, [0.5, -2]),
    "Powell badly scaled": Nonlinear(powell_badly_scaled, powell_badly_scaled_jac, [0, 1]),
    "Brown badly scaled": Nonlinear(brown_badly_scaled, brown_badly_scaled_jac, [1, 1]),
    "Beale": Nonlinear(beale, beale_jac, [1, 1]),
    "Jennrich and Sampson": Nonlinear(jennrich_sampson, jennrich_sampson_jac, [0.3, 0.4]),
    "Helical valley": Nonlinear(helical_valley, helical_valley_jac, [-1, 0, 0]),
    "Bard": Nonlinear(bard, bard_jac, [1, 1, 1]),
    "Gaussian": Nonlinear(gaussian, gaussian_jac, [0.4, 1, 0]),
    "Meyer": Nonlinear(meyer, meyer_jac, [0.02, 4000, 250]),
    "Gulf research and development": Nonlinear(gulf, gulf_jac, [5, 2.5, 0.15]),
    "Box three-dimensional": Nonlinear(box, box_jac, [0, 10, 20]),
    "Powell singular": Nonlinear(powell_singular, powell_singular_jac, [3, -1, 0, 1]),
    "Wood": Nonlinear(wood, wood_jac, [-3, -1, -3, -1]),
    "Kowalik and Osborne": Nonlinear(kowalik_osborne, kowalik_osborne_jac, [0.25, 0.39, 0.415, 0.39]),
    "Brown and Dennis": Nonlinear(brown_dennis, brown_dennis_jac, [25, 5, -5, -1]),
    "Osborne 1": Nonlinear(osborne_1, osborne_1_jac, [0.5, 1.5, -1, 0.01, 0.02]),
    "Biggs EXP6": Nonlinear(biggs, biggs_jac, [1, 2, 1, 1, 1, 1]),
    "Osborne 2": Nonlinear(osborne_2, osborne_2_jac, [1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5]),
    "Watson": Nonlinear(watson, watson_jac, np.zeros(6)),
    "Extended Rosenbrock": Nonlinear(*_ROSENBROCKS, np.tile([-1.2, 1], 4)),
    "Extended Powell singular": Nonlinear(*_POWELLS, np.tile([3, -1, 0, 1], 2)),
    "Penalty I": Nonlinear(penalty_1, penalty_1_jac, np.arange(1, 9)),
    "Penalty II": Nonlinear(penalty_2, penalty_2_jac, np.full(8, 0.5)),
    "Variably dimensioned": Nonlinear(variably_dimensioned, variably_dimensioned_jac, 1 - np.arange(1, 9) / 8),
    "Trigonometric": Nonlinear(trigonometric, trigonometric_jac, np.full(8, 1 / 8)),
    "Brown almost-linear": Nonlinear(brown_almost_linear, brown_almost_linear_jac, np.full(8, 0.5)),
    "Discrete boundary value": Nonlinear(discrete_boundary, discrete_boundary_jac, T * (T - 1)),
    "Discrete integral equation": Nonlinear(discrete_integral, discrete_integral_jac, T * (T - 1)),
    "Broyden tridiagonal": Nonlinear(broyden_tridiagonal, broyden_tridiagonal_jac, np.full(8, -1.0)),
    "Broyden banded": Nonlinear(broyden_banded, broyden_banded_jac, np.full(9, -1.0)),
    "Linear, full rank": Nonlinear(linear_full_rank, linear_full_rank_jac, np.ones(8)),
    "Linear, rank 1": Nonlinear(linear_rank_1, linear_rank_1_jac, np.ones(8)),
    "Linear, rank 1, zero columns and rows": Nonlinear(linear_rank_1_zeros, linear_rank_1_zeros_jac, np.ones(8)),
    "Chebyquad": Nonlinear(chebyquad, chebyquad_jac, T),
}
