#include "data/referenced_pairs.h"

#include <ATen/ATen.h>

#include <utility>

#include "data/source_errors.h"

namespace accrue::data {
namespace {

class ReferencedPairs final : public Source {
 public:
  ReferencedPairs(std::shared_ptr<const Source> pairs, Reference reference)
      : pairs_(std::move(pairs)), reference_(std::move(reference)) {
    const auto numbers = std::ssize(reference_.log_probabilities);
    if (numbers == 0 || numbers == 2 * pairs_->size()) return;
    throw usage_error(
        "take a reference",
        "two log-probabilities for each of " + std::to_string(pairs_->size()) + " pairs",
        std::to_string(numbers), "those of these pairs");
  }

  std::int64_t size() const override { return pairs_->size(); }
  std::int64_t vocab() const override { return pairs_->vocab(); }
  bool has_text() const override { return pairs_->has_text(); }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return pairs_->tokenizer(); }
  bool has_conversations() const override { return pairs_->has_conversations(); }
  std::vector<MixturePart> parts() const override { return pairs_->parts(); }
  std::int64_t tokens(std::int64_t index) const override { return pairs_->tokens(index); }
  std::optional<std::int64_t> uniform_tokens() const override { return pairs_->uniform_tokens(); }
  std::vector<std::string> remarks() const override { return pairs_->remarks(); }
  void check_contents() const override { pairs_->check_contents(); }
  std::string fingerprint() const override {
    return pairs_->fingerprint() + ", reference " + reference_.key;
  }
  std::vector<DataFile> files() const override { return pairs_->files(); }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    batch::MicroBatch micro = pairs_->fetch(indices);
    micro.reference = at::zeros({static_cast<std::int64_t>(indices.size()), 2}, at::kDouble);
    if (reference_.log_probabilities.empty()) return micro;
    auto* values = micro.reference.mutable_data_ptr<double>();
    for (const std::int64_t index : indices)
      for (std::int64_t sequence = 0; sequence < 2; ++sequence)
        *values++ = reference_.log_probabilities[static_cast<std::size_t>(2 * index + sequence)];
    return micro;
  }

 private:
  std::shared_ptr<const Source> pairs_;
  Reference reference_;
};

}  // namespace

std::unique_ptr<Source> with_reference(std::shared_ptr<const Source> pairs, Reference reference) {
  return std::make_unique<ReferencedPairs>(std::move(pairs), std::move(reference));
}

}  // namespace accrue::data
