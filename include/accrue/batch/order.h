#pragma once

#include "accrue/core/enum_words.h"

namespace accrue::batch {

/// In which order an epoch takes its samples.
enum class Order { shuffle, sequential };
/// As data.order spells them.
inline constexpr auto order_words =
    enum_words<Order>({{Order::shuffle, "shuffle"}, {Order::sequential, "sequential"}});

/// What becomes of samples at an epoch's end that fill no window: a short one, rightly weighted, or
/// none.
enum class LastWindow { weighted, drop };
/// As batch.last spells them.
inline constexpr auto last_window_words =
    enum_words<LastWindow>({{LastWindow::weighted, "weighted"}, {LastWindow::drop, "drop"}});

}  // namespace accrue::batch
