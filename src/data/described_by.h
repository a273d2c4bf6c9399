#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "accrue/data/source.h"

namespace accrue::data {

/// A source made from another one, which describes it in everything that a derived class does not
/// override. The derived class implements fetching.
class DescribedBy : public Source {
 public:
  explicit DescribedBy(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  std::int64_t size() const override { return source_->size(); }
  std::int64_t vocab() const override { return source_->vocab(); }
  bool has_text() const override { return source_->has_text(); }
  bool has_conversations() const override { return source_->has_conversations(); }
  std::shared_ptr<const Tokenizer> tokenizer() const override { return source_->tokenizer(); }
  std::int64_t tokens(std::int64_t index) const override { return source_->tokens(index); }
  std::optional<std::int64_t> uniform_tokens() const override { return source_->uniform_tokens(); }
  bool reads_in_order() const override { return source_->reads_in_order(); }
  std::optional<ImageShape> image_shape() const override { return source_->image_shape(); }
  Decoding decoding() const override { return source_->decoding(); }
  bool has_masks() const override { return source_->has_masks(); }
  std::vector<MixturePart> parts() const override { return source_->parts(); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  std::optional<std::int64_t> class_of(std::int64_t index) const override {
    return source_->class_of(index);
  }
  std::vector<std::string> remarks() const override { return source_->remarks(); }
  void check_contents() const override { source_->check_contents(); }
  std::string fingerprint() const override { return source_->fingerprint(); }
  std::vector<DataFile> files() const override { return source_->files(); }

 protected:
  const Source& source() const { return *source_; }

 private:
  std::shared_ptr<const Source> source_;
};

}  // namespace accrue::data
