#include "accrue/distributed/group.h"

namespace accrue::distributed {

at::Tensor Group::reduce_scatter(const at::Tensor& rows) { return add_in_order(all_to_all(rows)); }

}  // namespace accrue::distributed
