#include "accum/gradient_norms.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "accum/sum_of_terms.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

constexpr std::int64_t kNormElements = 1024;
constexpr std::int64_t kNormBlocksOfATask = 16;
/// Elements of a sum on the stack, where they cannot be read in place.
using Block = std::array<float, kNormElements>;

const float* read_block(const Entry& entry, const GradientSource& source, std::int64_t begin,
                        std::int64_t count, Block& block) {
  if (!entry.staged && entry.slot->main.scalar_type() == at::kFloat && entry.slot->main.is_cpu())
    return source.tensor.const_data_ptr<float>() + begin;
  source.read(begin, count, block.data());
  return block.data();
}

/// `sum_of_block(values, begin, count)` over the blocks of an entry, added in order.
template <typename SumOfBlock>
double sum_over(const Entry& entry, const SumOfBlock& sum_of_block) {
  if (entry.slot->fresh) return 0;
  const GradientSource source = source_of(entry);
  const std::int64_t elements = entry.slot->main.numel();
  const std::int64_t blocks = (elements + kNormElements - 1) / kNormElements;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  at::parallel_for(0, blocks, kNormBlocksOfATask, [&](std::int64_t first, std::int64_t last) {
    Block block;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i * kNormElements;
      const std::int64_t count = std::min(kNormElements, elements - begin);
      const float* values = read_block(entry, source, begin, count, block);
      sums[static_cast<std::size_t>(i)] = sum_of_block(values, begin, count);
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double square_of_block(const float* values, std::int64_t /*begin*/, std::int64_t count) {
  return sum_of_squares_of(values, count);
}

double absolute_of_block(const float* values, std::int64_t /*begin*/, std::int64_t count) {
  return sum_of_terms(
      count, [values](std::int64_t i) { return std::abs(static_cast<double>(values[i])); });
}

}  // namespace

std::vector<double> squared_norms(const GradientBuffer& buffer) {
  std::vector<double> norms;
  for (const Entry& entry : buffer.entries()) norms.push_back(sum_over(entry, square_of_block));
  return norms;
}

double absolute_sum(const GradientBuffer& buffer) {
  double sum = 0;
  for (const Entry& entry : buffer.entries()) sum += sum_over(entry, absolute_of_block);
  return sum;
}

double preconditioned_square(const GradientBuffer& buffer, const Preconditioner& preconditioner) {
  const auto correction = static_cast<float>(preconditioner.correction);
  const auto eps = static_cast<float>(preconditioner.eps);
  double sum = 0;
  for (std::size_t e = 0; e < buffer.entries().size(); ++e) {
    const float* moments = preconditioner.second_moments[e].const_data_ptr<float>();
    sum += sum_over(buffer.entries()[e],
                    [=](const float* values, std::int64_t begin, std::int64_t count) {
                      return sum_of_terms(count, [=](std::int64_t i) {
                        const float divisor = std::sqrt(moments[begin + i]) * correction + eps;
                        return static_cast<double>(values[i] * values[i] / divisor);
                      });
                    });
  }
  return sum;
}

}  // namespace accrue::accum
