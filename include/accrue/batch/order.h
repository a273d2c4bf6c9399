#pragma once

#include "accrue/core/enum_words.h"

namespace accrue::batch {

/// The order in which an epoch takes its samples.
enum class Order { shuffle, sequential };
/// The words of data.order.
inline constexpr auto order_words =
    enum_words<Order>({{Order::shuffle, "shuffle"}, {Order::sequential, "sequential"}});

/// The use of samples at an epoch's end that do not fill a window: a short window with the right
/// weight, or none.
enum class LastWindow { weighted, drop };
/// The words of batch.last.
inline constexpr auto last_window_words =
    enum_words<LastWindow>({{LastWindow::weighted, "weighted"}, {LastWindow::drop, "drop"}});

}  // namespace accrue::batch
