"""The released packages of `wild.py`: what is installed, all of it pinned and without dependencies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """`name==version` is installed with `needs`; the recipes are in `wild_recipes/{module}.py`.

    `triton` and `torchvision`: what a reproducer needs to be prepared on a machine with a CPU build of torch.
    """

    name: str
    version: str
    module: str
    needs: tuple[str, ...] = ()
    triton: bool = False
    torchvision: bool = False

    @property
    def prelude(self) -> str:
        """What is run before a reproducer, so that the package can be imported and run here."""
        if self.triton:
            return "from wild_recipes import interpreter; interpreter.install(); "
        return "from wild_recipes.timm import declare_operators; declare_operators(); " if self.torchvision else ""

    @property
    def pinned(self) -> tuple[str, ...]:
        return (f"{self.name}=={self.version}", *self.needs)


SCIPY = "scipy==1.16.3"
TRITON = ("triton==3.9.0",)
HUB = ("huggingface_hub==0.36.2", "safetensors==0.8.0", "tqdm==4.70.1")
LINEAR = ("linear_operator==0.6.1", "jaxtyping==0.3.11", "wadler_lindig==0.1.8", SCIPY)
DEEPINV = ("torchvision==0.28.0", "einops==0.8.2", "h5py==3.16.0", "natsort==8.4.0", "tqdm==4.70.1", SCIPY)

PACKAGES = [
    Package("entmax", "1.3", "entmax"),
    Package("timm", "1.0.30", "timm", ("torchvision==0.28.0", *HUB), torchvision=True),
    Package("e3nn", "0.6.0", "e3nn", ("opt_einsum_fx==0.1.4", "opt_einsum==3.4.0", SCIPY)),
    Package("kymatio", "0.3.0", "kymatio", (SCIPY, "appdirs==1.4.4")),
    Package("monai", "1.6.1", "monai"),
    Package("pyro-ppl", "1.9.2", "pyro", ("opt_einsum==3.4.0", "pyro-api==0.1.2", "tqdm==4.70.1")),
    Package("pytorch-wavelets", "1.3.0", "pytorch_wavelets", ("PyWavelets==1.9.0",)),
    Package("norse", "1.1.0", "norse", ("nir==1.0.8", "nirtorch==2.6", "h5py==3.16.0")),
    Package("zuko", "1.6.0", "zuko"),
    Package("linear_operator", "0.6.1", "linear_operator", LINEAR[1:]),
    Package("gpytorch", "1.15.2", "gpytorch", LINEAR),
    Package("torch-harmonics", "0.9.3", "torch_harmonics"),
    Package("torchkbnufft", "1.5.2", "torchkbnufft", (SCIPY,)),
    Package("torchdiffeq", "0.2.5", "torchdiffeq", (SCIPY,)),
    Package("torchsde", "0.2.6", "torchsde", (SCIPY, "trampoline==0.1.2")),
    Package("xitorch", "0.5.1", "xitorch", (SCIPY,)),
    Package("pypose", "0.9.5", "pypose"),
    Package("memcnn", "1.5.2", "memcnn"),
    Package("POT", "0.9.7.post1", "pot", (SCIPY,)),
    Package("kornia", "0.9.0", "kornia", ("kornia_rs==0.2.0",)),
    Package("torch-geometric", "2.8.1", "torch_geometric", ("xxhash==4.1.0", "tqdm==4.70.1", "aiohttp==3.14.5")),
    Package("torchrl", "0.14.1", "torchrl", ("tensordict==0.14.0", "orjson==3.13.0", "pyvers==0.2.3")),
    Package("spikingjelly", "2.0.0", "spikingjelly"),
    Package("megatron-core", "0.16.1", "megatron"),
    Package("deepinv", "0.5.0", "deepinv", DEEPINV, torchvision=True),
    Package("liger-kernel", "0.8.5", "liger_kernel", TRITON, triton=True),
    Package("fla-core", "0.6.0", "fla", (*TRITON, "einops==0.8.2", "transformers==5.22.2", *HUB), triton=True),
]
