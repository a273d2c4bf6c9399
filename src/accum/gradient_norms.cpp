#include "accum/gradient_norms.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "accrue/memory/offload_passes.h"
#include "accum/norm_passes.h"
#include "accum/staged_sum.h"
#include "accum/sum_of_terms.h"
#include "kernels/backend.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

constexpr std::int64_t kNormElements = 1024;
constexpr std::int64_t kNormBlocksOfATask = 16;
constexpr std::int64_t kBlocksOfAPiece = memory::kPieceElements / kNormElements;
/// Elements of a sum on the stack, if they cannot be read in place.
using Block = std::array<float, kNormElements>;

const float* read_block(const Entry& entry, const GradientSource& source, std::int64_t begin,
                        std::int64_t count, Block& block) {
  if (!entry.staged && entry.slot->main.scalar_type() == at::kFloat && entry.slot->main.is_cpu())
    return source.tensor.const_data_ptr<float>() + begin;
  source.read(begin, count, block.data());
  return block.data();
}

/// The blocks of all sums, one entry after the other.
class Blocks {
 public:
  struct Place {
    std::size_t entry;
    std::int64_t begin, count;  ///< of its elements
  };

  explicit Blocks(const GradientBuffer& buffer) {
    for (const Entry& entry : buffer.entries()) {
      elements_.push_back(entry.slot->fresh ? 0 : entry.slot->main.numel());
      first_.push_back(first_.back() + (elements_.back() + kNormElements - 1) / kNormElements);
    }
  }
  std::int64_t count() const { return first_.back(); }
  std::int64_t first_of(std::size_t entry) const { return first_[entry]; }
  Place at(std::int64_t block) const {
    const auto behind = std::ranges::upper_bound(first_, block);
    const auto entry = static_cast<std::size_t>(behind - first_.begin() - 1);
    const std::int64_t begin = (block - first_[entry]) * kNormElements;
    return {entry, begin, std::min(kNormElements, elements_[entry] - begin)};
  }

 private:
  std::vector<std::int64_t> elements_, first_{0};
};

/// The memory that blocks [begin, end) are read from, with the same elements of `beside`, which has
/// a tensor for each entry or is empty.
std::vector<at::Tensor> touched_in(const Blocks& blocks, const std::vector<GradientSource>& sources,
                                   const std::vector<at::Tensor>& beside, std::int64_t begin,
                                   std::int64_t end) {
  std::vector<at::Tensor> touched;
  while (begin < end) {
    const Blocks::Place first = blocks.at(begin);
    const std::int64_t behind = std::min(end, blocks.first_of(first.entry + 1));
    const Blocks::Place last = blocks.at(behind - 1);
    const ElementRange range{.begin = first.begin,
                             .elements = last.begin + last.count - first.begin};
    for (at::Tensor& tensor : sources[first.entry].memory_of(range))
      touched.push_back(std::move(tensor));
    if (!beside.empty())
      touched.push_back(beside[first.entry].view({-1}).narrow(0, range.begin, range.elements));
    begin = behind;
  }
  return touched;
}

/// `sum_of_block(values, place)` over the blocks of each entry, added in order. All blocks are one
/// parallel region, with a single barrier; if they are offloaded, those of a piece are. It also
/// reads the elements of `beside` (see touched_in).
template <typename SumOfBlock>
std::vector<double> sums_by_entry(const GradientBuffer& buffer, const SumOfBlock& sum_of_block,
                                  const std::vector<at::Tensor>& beside = {}) {
  const Blocks blocks(buffer);
  std::vector<GradientSource> sources;
  for (const Entry& entry : buffer.entries()) sources.push_back(source_of(entry));
  std::vector<double> sums(static_cast<std::size_t>(blocks.count()));
  const auto sum_up = [&](std::int64_t begin, std::int64_t end) {
    at::parallel_for(begin, end, kNormBlocksOfATask, [&](std::int64_t first, std::int64_t last) {
      Block scratch;
      for (std::int64_t i = first; i < last; ++i) {
        const Blocks::Place place = blocks.at(i);
        const float* values = read_block(buffer.entries()[place.entry], sources[place.entry],
                                         place.begin, place.count, scratch);
        sums[static_cast<std::size_t>(i)] = sum_of_block(values, place);
      }
    });
  };
  const std::int64_t all = blocks.count();
  const std::int64_t step =
      memory::is_offloading() ? kBlocksOfAPiece : std::max<std::int64_t>(all, 1);
  const auto begin = [&](std::size_t part) { return static_cast<std::int64_t>(part) * step; };
  const auto end = [&](std::size_t part) { return std::min(begin(part) + step, all); };
  memory::for_parts(
      static_cast<std::size_t>((all + step - 1) / step),
      [&](std::size_t part) { return touched_in(blocks, sources, beside, begin(part), end(part)); },
      [&](std::size_t part) { sum_up(begin(part), end(part)); });
  std::vector<double> by_entry;
  for (std::size_t e = 0; e < buffer.entries().size(); ++e)
    by_entry.push_back(std::accumulate(sums.begin() + blocks.first_of(e),
                                       sums.begin() + blocks.first_of(e + 1), 0.0));
  return by_entry;
}

double added_up(const std::vector<double>& sums) {
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// The sum of the values in the form that the back end of the sums has. Without sums there is
/// nothing to add up.
template <typename OverMemory, typename ByOperators>
auto in_form_of_sums(const GradientBuffer& buffer, const OverMemory& over_memory,
                     const ByOperators& by_operators) {
  if (buffer.folds() || buffer.entries().empty()) return over_memory();
  return kernels::in_form_of(buffer.entries().front().slot->main, over_memory, by_operators);
}

at::Tensor values_of(const Entry& entry) {
  return entry.staged ? entry.staged->values(at::kFloat) : entry.slot->main;
}

/// `of_entry(values, entry)` of each entry's values as a row, a scalar in double; waits for the
/// device once.
template <typename OfEntry>
std::vector<double> scalars_by_entry(const GradientBuffer& buffer, const OfEntry& of_entry) {
  std::vector<at::Tensor> scalars;
  const std::vector<Entry>& entries = buffer.entries();
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const at::Tensor main = values_of(entries[e]);
    scalars.push_back(entries[e].slot->fresh ? at::zeros({}, main.options().dtype(at::kDouble))
                                             : of_entry(main.view({-1}), e));
  }
  const at::Tensor all = at::stack(scalars).cpu();
  const double* first = all.const_data_ptr<double>();
  return {first, first + all.numel()};
}

/// Norms of each entry's values, by one operation of ATen for all.
std::vector<double> norms_by_entry(const GradientBuffer& buffer, double order) {
  std::vector<at::Tensor> sums;
  std::vector<std::size_t> places;
  for (std::size_t e = 0; e < buffer.entries().size(); ++e) {
    if (buffer.entries()[e].slot->fresh) continue;
    sums.push_back(values_of(buffer.entries()[e]));
    places.push_back(e);
  }
  std::vector<double> norms(buffer.entries().size(), 0.0);
  if (sums.empty()) return norms;
  const at::Tensor found =
      at::stack(at::_foreach_norm(sums, order, at::kDouble)).to(at::kDouble).cpu();
  for (std::size_t i = 0; i < places.size(); ++i)
    norms[places[i]] = found.const_data_ptr<double>()[i];
  return norms;
}

std::vector<double> squares_of(std::vector<double> values) {
  for (double& value : values) value *= value;
  return values;
}

std::vector<double> preconditioned_over_memory(const GradientBuffer& buffer,
                                               const Preconditioner& preconditioner) {
  const RootOfMoment root{.correction = static_cast<float>(preconditioner.correction),
                          .eps = static_cast<float>(preconditioner.eps)};
  std::vector<const float*> moments;
  for (const at::Tensor& tensor : preconditioner.second_moments)
    moments.push_back(tensor.const_data_ptr<float>());
  return sums_by_entry(
      buffer,
      [&](const float* values, const Blocks::Place& place) {
        Block squares;
        squares_over_roots(values, moments[place.entry] + place.begin,
                           static_cast<std::size_t>(place.count), root, squares.data());
        return sum_of_terms(place.count, [&](std::int64_t i) {
          return static_cast<double>(squares[static_cast<std::size_t>(i)]);
        });
      },
      preconditioner.second_moments);
}

std::vector<double> preconditioned_by_operators(const GradientBuffer& buffer,
                                                const Preconditioner& preconditioner) {
  return scalars_by_entry(buffer, [&](const at::Tensor& values, std::size_t entry) {
    const at::Tensor roots = preconditioner.second_moments[entry]
                                 .view({-1})
                                 .sqrt()
                                 .mul_(preconditioner.correction)
                                 .add_(preconditioner.eps);
    return values.square().div_(roots).sum(at::kDouble);
  });
}

}  // namespace

std::vector<double> squared_norms(const GradientBuffer& buffer) {
  return in_form_of_sums(
      buffer,
      [&] {
        return sums_by_entry(buffer, [](const float* values, const Blocks::Place& place) {
          return sum_of_squares_of(values, place.count);
        });
      },
      [&] { return squares_of(norms_by_entry(buffer, 2)); });
}

double absolute_sum(const GradientBuffer& buffer) {
  return added_up(in_form_of_sums(
      buffer,
      [&] {
        return sums_by_entry(buffer, [](const float* values, const Blocks::Place& place) {
          return sum_of_terms(place.count, [values](std::int64_t i) {
            return std::abs(static_cast<double>(values[i]));
          });
        });
      },
      [&] { return norms_by_entry(buffer, 1); }));
}

double preconditioned_square(const GradientBuffer& buffer, const Preconditioner& preconditioner) {
  return added_up(in_form_of_sums(
      buffer, [&] { return preconditioned_over_memory(buffer, preconditioner); },
      [&] { return preconditioned_by_operators(buffer, preconditioner); }));
}

}  // namespace accrue::accum
