"""pytorch-wavelets: separable wavelet transforms with hand-written backwards, and scattering layers."""

from wild_recipes.recipe import Recipe, between, normal

TRITON = False


def forward(kind, shape, **options):
    def make():
        import pytorch_wavelets

        transform = getattr(pytorch_wavelets, kind)(**options).double()

        def run(x):
            low, high = transform(x)
            return (low, *high)

        return run, (normal(*shape),)

    return make


def inverse(kind, low, high, **options):
    def make():
        import pytorch_wavelets

        transform = getattr(pytorch_wavelets, kind)(**options).double()
        return lambda low, high: transform((low, [high])), (normal(*low), normal(*high))

    return make


def scattering(kind, **options):
    def make():
        import pytorch_wavelets

        return getattr(pytorch_wavelets, kind)(**options).double(), (normal(1, 1, 8, 8),)

    return make


def magnitude():
    from pytorch_wavelets.scatternet.lowlevel import SmoothMagFn

    return lambda x, y: SmoothMagFn.apply(x, y, 0.1), (normal(3, 5), normal(3, 5))


def small_magnitude():
    from pytorch_wavelets.scatternet.lowlevel import SmoothMagFn

    near = between(-1e-3, 1e-3, 7), between(-1e-3, 1e-3, 7)
    return lambda x, y: SmoothMagFn.apply(x, y, 0.01), near


SYMMETRIC = "pytorch-wavelets-symmetric"
RECIPES = [
    Recipe("AFB1D, zero", forward("DWT1DForward", (1, 2, 9), J=1, wave="db2", mode="zero")),
    Recipe("AFB1D, symmetric", forward("DWT1DForward", (1, 2, 8), J=1, wave="db2", mode="symmetric"), SYMMETRIC),
    Recipe("AFB1D, periodization", forward("DWT1DForward", (1, 2, 8), J=2, wave="db1", mode="periodization")),
    Recipe("SFB1D, zero", inverse("DWT1DInverse", (1, 2, 5), (1, 2, 5), wave="db2", mode="zero")),
    Recipe("AFB2D, zero", forward("DWTForward", (1, 1, 7, 6), J=1, wave="db2", mode="zero")),
    Recipe("AFB2D, periodization", forward("DWTForward", (1, 1, 8, 8), J=1, wave="db1", mode="periodization")),
    Recipe("SFB2D, zero", inverse("DWTInverse", (1, 1, 4, 5), (1, 1, 3, 4, 5), wave="db2", mode="zero")),
    Recipe("FWD_J1", forward("DTCWTForward", (1, 1, 8, 8), J=1)),
    Recipe("FWD_J2PLUS", forward("DTCWTForward", (1, 1, 16, 16), J=2)),
    Recipe("INV_J1", inverse("DTCWTInverse", (1, 1, 8, 8), (1, 1, 6, 4, 4, 2))),
    Recipe("SmoothMag", magnitude),
    Recipe("SmoothMag, near zero", small_magnitude),
    Recipe("ScatLayer", scattering("ScatLayer")),
    Recipe("ScatLayerj2", scattering("ScatLayerj2")),
]
