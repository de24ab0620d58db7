"""The kernels for NVIDIA GPUs, in Triton; one module an op. Imported only where triton is installed.

An exact kernel is launched with `enable_fp_fusion=False` and divides by `div_rn`: it rounds after each
operation, as eager torch does. Tested without a GPU under Triton's interpreter.
"""
