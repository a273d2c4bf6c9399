#pragma once

namespace accrue {

/// Registers a binary's benchmarks. registered_main.cpp calls it after it installed the caching
/// allocator, as accrue's own main does.
void register_all();

}  // namespace accrue
