#pragma once

namespace accrue::kernels {

/// Registers the operations that accrue runs under `accelerated_key` with libtorch's dispatcher,
/// once per process: a thread without the key never reaches them. Throws a usage Error if other
/// code uses the key.
void install_interception();

}  // namespace accrue::kernels
