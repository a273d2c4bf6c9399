#include "accrue/kernels/prepared_weight.h"

#include <ATen/ATen.h>

#include "accrue/core/memory_tag.h"
#include "kernels/backend.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/gemm/packed_gemm.h"

namespace accrue::kernels {

bool PreparedWeight::Made::has_room(const at::Tensor& master, const at::TensorOptions& options,
                                    at::IntArrayRef sizes) const {
  return tensor.defined() && data == master.const_data_ptr() && tensor.sizes() == sizes &&
         tensor.dtype() == options.dtype() && tensor.device() == options.device();
}

bool PreparedWeight::Made::is_current(const at::Tensor& master, const at::TensorOptions& options,
                                      at::IntArrayRef sizes) const {
  return has_room(master, options, sizes) && version == master._version();
}

template <class Write>
const at::Tensor& PreparedWeight::Made::remake(const at::Tensor& master,
                                               const at::TensorOptions& options,
                                               at::IntArrayRef sizes, MemoryTag kind,
                                               const Write& write) {
  const at::NoGradGuard no_grad;
  // It is written in place, so that autograd detects a graph that still holds the old values.
  if (!has_room(master, options, sizes)) {
    const MemoryTagScope tag(kind);
    tensor = at::empty(sizes, options);
  }
  version = outdated;
  write(tensor);
  data = master.const_data_ptr();
  version = master._version();
  return tensor;
}

const at::Tensor& PreparedWeight::copy(const at::Tensor& master, at::ScalarType dtype) {
  if (master.scalar_type() == dtype) return master;
  const at::TensorOptions options = master.options().dtype(dtype);
  if (copy_.is_current(master, options, master.sizes())) return copy_.tensor;
  return copy_.remake(master, options, master.sizes(), MemoryTag::parameters,
                      [&](at::Tensor& tensor) { tensor.copy_(master); });
}

WeightOperands PreparedWeight::operands(const at::Tensor& master, at::ScalarType dtype,
                                        bool data_gradient) {
  if (is_unpacked_by_products(master, dtype))
    return {.forward = master, .data_gradient = data_gradient ? master : at::Tensor()};
  const at::TensorOptions options = master.options().dtype(dtype);
  const std::int64_t outputs = master.size(0), inputs = master.size(1);
  at::Tensor plain;  // made at most once, and only if a layout differs from the master's
  const auto operand = [&](Made& made, std::int64_t k, std::int64_t n, bool transposed) {
    const std::int64_t elements = packs_ ? backend_of(master).packed_elements(options, k, n) : 0;
    if (elements == 0) return copy(master, dtype);
    if (made.is_current(master, options, elements)) return made.tensor;
    return made.remake(master, options, elements, MemoryTag::packed, [&](at::Tensor& packed) {
      if (!plain.defined()) plain = master.detach().to(dtype).contiguous();
      pack_out(packed, transposed ? plain.t() : plain);
    });
  };
  return {.forward = operand(forward_, inputs, outputs, true),
          .data_gradient =
              data_gradient ? operand(data_gradient_, outputs, inputs, false) : at::Tensor()};
}

std::vector<at::Tensor> PreparedWeight::next_operands(const at::Tensor& master) const {
  std::vector<at::Tensor> tensors;
  bool reads_master = false;
  for (const Made* made : {&copy_, &forward_, &data_gradient_}) {
    // One whose memory was taken back is empty, and is made again.
    if (!made->tensor.defined() || made->tensor.numel() == 0) continue;
    tensors.push_back(made->tensor);
    reads_master |= made->data != master.const_data_ptr() || made->version != master._version();
  }
  if (reads_master || tensors.empty()) tensors.push_back(master);
  return tensors;
}

void PreparedWeight::pack(bool wanted) {
  packs_ = wanted;
  if (!wanted) forward_ = data_gradient_ = {};
}

}  // namespace accrue::kernels
