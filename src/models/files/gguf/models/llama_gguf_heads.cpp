#include "models/files/gguf/models/llama_gguf_heads.h"

#include <ATen/ATen.h>

namespace accrue::models {

std::int64_t rotated_heads(std::string_view hub_name, const LlamaOptions& options) {
  if (hub_name.find(".q_proj.") != hub_name.npos) return options.heads;
  if (hub_name.find(".k_proj.") != hub_name.npos) return options.kv_heads;
  return 0;
}

at::Tensor as_neighbours(const at::Tensor& rows, std::int64_t heads) {
  return rows.reshape({heads, 2, rows.size(0) / heads / 2, -1})
      .transpose(1, 2)
      .reshape(rows.sizes());
}

at::Tensor as_halves(const at::Tensor& rows, std::int64_t heads) {
  return rows.reshape({heads, rows.size(0) / heads / 2, 2, -1})
      .transpose(1, 2)
      .reshape(rows.sizes());
}

}  // namespace accrue::models
