"""kymatio: the stable modulus, alone and inside the scattering transforms."""

from wild_recipes.recipe import Recipe, normal, single

TRITON = False


def modulus(*shape):
    def make():
        from kymatio.backend.torch_backend import ModulusStable

        return ModulusStable.apply, (normal(*shape, 2),)

    return make


def modulus_at_zero():
    from kymatio.backend.torch_backend import ModulusStable

    x = normal(4, 2)
    x.data[1] = 0
    return ModulusStable.apply, (x,)


def scattering1d():
    from kymatio.torch import Scattering1D

    return Scattering1D(J=2, shape=16, Q=1), (single(1, 16),)


def scattering2d():
    from kymatio.torch import Scattering2D

    return Scattering2D(J=1, shape=(8, 8), L=2).double(), (normal(1, 8, 8),)


def harmonic3d():
    from kymatio.torch import HarmonicScattering3D

    scatter = HarmonicScattering3D(J=1, shape=(4, 4, 4), L=1, sigma_0=1, integral_powers=[1.0])
    return scatter, (single(1, 4, 4, 4),)


RECIPES = [
    Recipe("ModulusStable", modulus(3, 5)),
    Recipe("ModulusStable, one number", modulus(1)),
    Recipe("ModulusStable, at zero", modulus_at_zero),
    Recipe("Scattering1D", scattering1d),
    Recipe("Scattering2D", scattering2d),
    Recipe("HarmonicScattering3D", harmonic3d),
]
