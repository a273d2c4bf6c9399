#include "data/text/samples/sample_encoder.h"

#include <algorithm>
#include <span>
#include <utility>

namespace accrue::data {

SampleEncoder::SampleEncoder(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {
  if (tokenizer_ != nullptr) encoder_.emplace(*tokenizer_);
}

void SampleEncoder::begin(std::vector<std::int64_t>& ids) {
  is_first_ = true;
  if (tokenizer_ == nullptr) return;
  const std::vector<std::int64_t>& before = tokenizer_->around().before;
  ids.insert(ids.end(), before.begin(), before.end());
  text_at_ = ids.size();
}

void SampleEncoder::add(std::string_view text, std::vector<std::int64_t>& ids) {
  const bool goes_on = !is_first_;
  is_first_ = is_first_ && text.empty();
  if (encoder_) {
    encoder_->encode(text, ids, goes_on);
    if (!goes_on) drop_second_beginning(ids);
    return;
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  ids.insert(ids.end(), bytes, bytes + text.size());
}

void SampleEncoder::end(std::vector<std::int64_t>& ids) const {
  if (tokenizer_ == nullptr) return;
  const std::vector<std::int64_t>& after = tokenizer_->around().after;
  const std::span<const std::int64_t> text = std::span(std::as_const(ids)).subspan(text_at_);
  const bool has_ending =
      text.size() >= after.size() && std::ranges::equal(text.last(after.size()), after);
  if (!has_ending) ids.insert(ids.end(), after.begin(), after.end());
  const std::optional<std::int64_t> last = tokenizer_->end_of_text();
  if (last && (ids.empty() || ids.back() != *last)) ids.push_back(*last);
}

void SampleEncoder::drop_second_beginning(std::vector<std::int64_t>& ids) const {
  const std::vector<std::int64_t>& before = tokenizer_->around().before;
  const std::span<const std::int64_t> text = std::span(std::as_const(ids)).subspan(text_at_);
  const bool has_beginning = !before.empty() && text.size() >= before.size() &&
                             std::ranges::equal(text.first(before.size()), before);
  if (!has_beginning) return;
  const auto first = ids.begin() + static_cast<std::ptrdiff_t>(text_at_);
  ids.erase(first, first + std::ssize(before));
}

}  // namespace accrue::data
