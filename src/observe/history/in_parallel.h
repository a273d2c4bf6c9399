#pragma once

#include <cstddef>
#include <functional>

namespace accrue::observe {

/// Calls `work` with each number below `count`, on as many threads as this process is allowed,
/// including this one. Throws what a call threw, after all threads have ended.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace accrue::observe
