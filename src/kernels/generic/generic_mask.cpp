#include "kernels/generic/generic_mask.h"

#include <ATen/ATen.h>

#include "kernels/generic/philox.h"
#include "kernels/generic/tensors.h"

namespace accrue::kernels::generic {
namespace {

constexpr std::int64_t words_per_counter = 4;
constexpr std::int64_t counters = static_cast<std::int64_t>(mask_block) / words_per_counter;
/// One number of each mask as [masks, 1, 1].
template <class Get>
at::Tensor column_of(const std::vector<DropoutMask>& masks, at::Device device, const Get& get) {
  std::vector<std::int64_t> numbers;
  for (const DropoutMask& mask : masks) numbers.push_back(get(mask));
  return numbers_on(numbers, device).view({-1, 1, 1});
}

}  // namespace

at::Tensor masks_of(const std::vector<DropoutMask>& masks, std::int64_t rows, std::int64_t columns,
                    const at::TensorOptions& options) {
  const at::Device device = options.device();
  const auto of = [&](const auto& get) { return column_of(masks, device, get); };
  const auto block = static_cast<std::int64_t>(mask_block);
  const std::int64_t blocks = (columns + block - 1) / block;
  const at::TensorOptions whole = at::TensorOptions(at::kLong).device(device);
  const PhiloxWords counter{
      at::arange(rows, whole).view({1, rows, 1}),
      at::arange(blocks * counters, whole).view({1, 1, blocks * counters}),
      of([](const DropoutMask& mask) { return std::int64_t{mask.tweak[0]}; }),
      of([](const DropoutMask& mask) { return std::int64_t{mask.tweak[1]}; })};
  const PhiloxWords drawn =
      philox(counter, of([](const DropoutMask& mask) { return std::int64_t{mask.key[0]}; }),
             of([](const DropoutMask& mask) { return std::int64_t{mask.key[1]}; }));
  const auto masks_count = static_cast<std::int64_t>(masks.size());
  // Word w of counter 16 b + i is column 64 b + 16 w + i.
  std::vector<at::Tensor> by_word;
  for (const at::Tensor& word : drawn)
    by_word.push_back(word.expand({masks_count, rows, blocks * counters})
                          .view({masks_count, rows, blocks, 1, counters}));
  const at::Tensor ordered =
      at::cat(by_word, 3).view({masks_count, rows, blocks * block}).narrow(2, 0, columns);
  return ordered.gt(std::int64_t{masks.front().last_dropped})
      .to(options.dtype())
      .mul_(masks.front().scale);
}

}  // namespace accrue::kernels::generic
