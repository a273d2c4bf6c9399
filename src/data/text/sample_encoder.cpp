#include "data/text/sample_encoder.h"

namespace accrue::data {

SampleEncoder::SampleEncoder(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {
  if (tokenizer_ != nullptr) encoder_.emplace(*tokenizer_);
}

void SampleEncoder::begin(std::vector<std::int64_t>& ids) {
  is_first_ = true;
  if (tokenizer_ == nullptr) return;
  const std::vector<std::int64_t>& before = tokenizer_->around().before;
  ids.insert(ids.end(), before.begin(), before.end());
}

void SampleEncoder::add(std::string_view text, std::vector<std::int64_t>& ids) {
  const bool goes_on = !is_first_;
  is_first_ = is_first_ && text.empty();
  if (encoder_) return encoder_->encode(text, ids, goes_on);
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  ids.insert(ids.end(), bytes, bytes + text.size());
}

void SampleEncoder::end(std::vector<std::int64_t>& ids) const {
  if (tokenizer_ == nullptr) return;
  const std::vector<std::int64_t>& after = tokenizer_->around().after;
  ids.insert(ids.end(), after.begin(), after.end());
  const std::optional<std::int64_t> last = tokenizer_->end_of_text();
  if (last && (ids.empty() || ids.back() != *last)) ids.push_back(*last);
}

}  // namespace accrue::data
