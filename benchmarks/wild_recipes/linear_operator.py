"""linear_operator: products, solves and decompositions of structured matrices, of what represents the matrix too."""

import torch

from wild_recipes.recipe import Recipe, normal

TRITON = False


def positive(*shape):
    root = torch.randn(*shape, dtype=torch.float64)
    return (root @ root.mT + 3 * torch.eye(shape[-1])).requires_grad_()


def dense(name, *arguments, size=5):
    """A function of a symmetric matrix; symmetrised, because only symmetric ones are meant."""

    def make():
        import linear_operator

        function = getattr(linear_operator, name)

        def run(matrix, *others):
            operator = linear_operator.operators.DenseLinearOperator((matrix + matrix.mT) / 2)
            return numbers(function(operator, *others))

        return run, (positive(size, size), *(normal(*shape) for shape in arguments))

    return make


def numbers(result):
    if isinstance(result, tuple):
        return tuple(numbers(part) for part in result if part is not None)
    return result if isinstance(result, torch.Tensor) else result.to_dense()


def matmul(kind, *shapes):
    def make():
        from linear_operator import operators

        def run(right, *parts):
            return getattr(operators, kind)(*parts) @ right

        return run, tuple(normal(*shape) for shape in shapes)

    return make


def kronecker():
    from linear_operator.operators import DenseLinearOperator, KroneckerProductLinearOperator

    def run(right, a, b):
        return KroneckerProductLinearOperator(DenseLinearOperator(a), DenseLinearOperator(b)) @ right

    return run, (normal(6, 2), normal(2, 2), normal(3, 3))


def low_rank():
    from linear_operator.operators import DiagLinearOperator, LowRankRootLinearOperator

    def run(root, diagonal, right):
        operator = LowRankRootLinearOperator(root) + DiagLinearOperator(diagonal.exp())
        return operator.solve(right), operator.logdet()

    return run, (normal(5, 2), normal(5), normal(5, 1))


def inv_quad_logdet():
    import linear_operator

    def run(matrix, right):
        operator = linear_operator.operators.DenseLinearOperator((matrix + matrix.mT) / 2)
        return linear_operator.inv_quad_logdet(operator, right, logdet=True)

    return run, (positive(5, 5), normal(5, 2))


def by_iteration():
    """Conjugate gradients instead of Cholesky."""
    import linear_operator
    from linear_operator import settings

    def run(matrix, right):
        with settings.max_cholesky_size(1), settings.cg_tolerance(1e-10), settings.max_cg_iterations(100):
            operator = linear_operator.operators.DenseLinearOperator((matrix + matrix.mT) / 2)
            return linear_operator.solve(operator, right)

    return run, (positive(7, 7), normal(7, 2))


def sparse_product():
    import linear_operator

    matrix = torch.eye(3, 4, dtype=torch.float64).to_sparse()
    return lambda right: linear_operator.dsmm(matrix, right), (normal(4, 2),)


def pivoted():
    import linear_operator

    def run(matrix):
        operator = linear_operator.operators.DenseLinearOperator((matrix + matrix.mT) / 2)
        return linear_operator.pivoted_cholesky(operator, rank=3)

    return run, (positive(5, 5),)


def sqrt_inv():
    import linear_operator
    from linear_operator import settings

    def run(matrix, right):
        with settings.num_contour_quadrature(25), settings.minres_tolerance(1e-12):
            operator = linear_operator.operators.DenseLinearOperator((matrix + matrix.mT) / 2)
            return linear_operator.sqrt_inv_matmul(operator, right)

    return run, (positive(4, 4), normal(4, 1))


RECIPES = [
    Recipe("Matmul, dense", matmul("DenseLinearOperator", (5, 2), (3, 5))),
    Recipe("Matmul, dense and a vector", matmul("DenseLinearOperator", (5,), (3, 5))),
    Recipe("Matmul, Toeplitz", matmul("ToeplitzLinearOperator", (5, 2), (5,))),
    Recipe("Matmul, diagonal", matmul("DiagLinearOperator", (5, 2), (5,))),
    Recipe("Matmul, root", matmul("RootLinearOperator", (5, 2), (5, 3))),
    Recipe("Matmul, Kronecker product", kronecker),
    Recipe("DSMM", sparse_product),
    Recipe("Solve", dense("solve", (5, 2))),
    Recipe("Solve, one equation", dense("solve", (1, 1), size=1)),
    Recipe("Solve, left and right", dense("solve", (5, 2), (3, 5))),
    Recipe("Solve, conjugate gradients", by_iteration, options={"rtol": 1e-5}),
    Recipe("Solve and logdet, low rank plus diagonal", low_rank),
    Recipe("InvQuad", dense("inv_quad", (5, 2))),
    Recipe("InvQuadLogdet", inv_quad_logdet),
    Recipe("SqrtInvMatmul", sqrt_inv, options={"rtol": 1e-4}),
    Recipe("PivotedCholesky", pivoted),
    Recipe("RootDecomposition", dense("root_decomposition")),
]
