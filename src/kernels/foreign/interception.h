#pragma once

namespace accrue::kernels {

/// Tells libtorch's dispatcher which operations accrue does under `accelerated_key`, once for the
/// process: a thread that does not include the key never gets there. Throws a usage Error if
/// somebody else has the key.
void install_interception();

}  // namespace accrue::kernels
