#include <utility>

#include "accrue/data/source.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

class Slice final : public Source {
 public:
  Slice(std::shared_ptr<const Source> source, std::int64_t begin, std::int64_t end)
      : source_(std::move(source)), begin_(begin), end_(end) {
    if (begin < 0 || begin > end || end > source_->size()) {
      throw usage_error("slice data",
                        "a part of its " + std::to_string(source_->size()) + " samples", range(),
                        "a smaller val_fraction or more data");
    }
  }

  std::int64_t size() const override { return end_ - begin_; }
  std::int64_t vocab() const override { return source_->vocab(); }
  bool has_text() const override { return source_->has_text(); }
  bool has_conversations() const override { return source_->has_conversations(); }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return source_->tokenizer(); }
  std::int64_t tokens(std::int64_t index) const override { return source_->tokens(shift(index)); }
  std::optional<std::int64_t> uniform_tokens() const override { return source_->uniform_tokens(); }
  bool reads_in_order() const override { return source_->reads_in_order(); }
  std::optional<ImageShape> image_shape() const override { return source_->image_shape(); }
  bool has_masks() const override { return source_->has_masks(); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  std::vector<std::string> remarks() const override { return source_->remarks(); }
  void check_contents() const override { source_->check_contents(); }
  std::string fingerprint() const override {
    return source_->fingerprint() + ", samples " + range();
  }
  std::vector<DataFile> files() const override { return source_->files(); }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    return source_->fetch(shifted(indices));
  }

  batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                std::span<const std::int64_t> draws) const override {
    return source_->fetch_drawn(shifted(indices), draws);
  }

 private:
  std::vector<std::int64_t> shifted(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> found;
    found.reserve(indices.size());
    for (const std::int64_t index : indices) found.push_back(shift(index));
    return found;
  }
  std::int64_t shift(std::int64_t index) const {
    require_index(index, size());
    return begin_ + index;
  }
  std::string range() const {
    return std::string("[").append(std::to_string(begin_)) + ", " + std::to_string(end_) + ")";
  }

  std::shared_ptr<const Source> source_;
  std::int64_t begin_;
  std::int64_t end_;
};

}  // namespace

std::unique_ptr<Source> slice(std::shared_ptr<const Source> source, std::int64_t begin,
                              std::int64_t end) {
  return std::make_unique<Slice>(std::move(source), begin, end);
}

}  // namespace accrue::data
