#include "data/referenced_pairs.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "data/described_by.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

class ReferencedPairs final : public DescribedBy {
 public:
  ReferencedPairs(std::shared_ptr<const Source> pairs, Reference reference)
      : DescribedBy(std::move(pairs)), reference_(std::move(reference)) {
    const auto numbers = std::ssize(reference_.log_probabilities);
    if (numbers == 0 || numbers == 2 * size()) return;
    throw usage_error("take a reference",
                      "two log-probabilities for each of " + std::to_string(size()) + " pairs",
                      std::to_string(numbers), "those of these pairs");
  }

  std::string fingerprint() const override {
    return source().fingerprint() + ", reference " + reference_.key;
  }

  std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks = source().remarks();
    remarks.insert(remarks.end(), reference_.remarks.begin(), reference_.remarks.end());
    return remarks;
  }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    batch::MicroBatch micro = source().fetch(indices);
    micro.reference = at::zeros({static_cast<std::int64_t>(indices.size()), 2}, at::kDouble);
    if (reference_.log_probabilities.empty()) return micro;
    auto* values = micro.reference.mutable_data_ptr<double>();
    for (const std::int64_t index : indices)
      for (std::int64_t sequence = 0; sequence < 2; ++sequence)
        *values++ = reference_.log_probabilities[static_cast<std::size_t>(2 * index + sequence)];
    return micro;
  }

 private:
  Reference reference_;
};

}  // namespace

std::unique_ptr<Source> with_reference(std::shared_ptr<const Source> pairs, Reference reference) {
  return std::make_unique<ReferencedPairs>(std::move(pairs), std::move(reference));
}

}  // namespace accrue::data
