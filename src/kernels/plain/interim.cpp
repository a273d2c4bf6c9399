#include "accrue/kernels/attention.h"
#include "kernels/plain/plain_operations.h"

namespace accrue::kernels {

at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const GroupedAttentionOptions& options,
                             const ForwardContext& context) {
  return plain_operations().grouped_attention(q, k, v, options, context);
}

}  // namespace accrue::kernels
