#include "data/tokenizer/pipeline/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "data/json/json_part.h"
#include "data/tokenizer/pipeline/pattern.h"
#include "data/tokenizer/unicode/white_space.h"

namespace accrue::data {
namespace {

using Json = nlohmann::json;

/// The characters that Hugging Face's tokenizers normalize: those of Unicode 9, whatever ICU's
/// version. Newer ones stay, and nothing is composed or reordered across them.
const icu::UnicodeSet& normalized_characters() {
  static const icu::UnicodeSet characters = [] {
    UErrorCode status = U_ZERO_ERROR;
    icu::UnicodeSet set(icu::UnicodeString(u"[:age=9.0:]"), status);
    if (U_FAILURE(status))
      throw runtime_error("tokenizer", "the characters of Unicode 9", u_errorName(status),
                          "another libicu");
    set.freeze();
    return set;
  }();
  return characters;
}

/// A form of The Unicode Standard, Annex 15.
class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(const icu::Normalizer2* form)
      : form_(form), filtered_(*form, normalized_characters()) {}
  void apply(std::string& text, PrecedingText, TextGrowth& growth) const override {
    UErrorCode status = U_ZERO_ERROR;
    // Text normalized for a newer version is so for an older one.
    if (form_->isNormalizedUTF8(text, status) != 0 && U_SUCCESS(status)) return;
    std::string normalized;
    icu::StringByteSink<std::string> sink(&normalized);
    status = U_ZERO_ERROR;
    filtered_.normalizeUTF8(0, text, sink, nullptr, status);
    if (U_FAILURE(status))
      throw runtime_error("tokenizer", "a text that can be normalised", u_errorName(status),
                          "another libicu");
    growth.take(normalized.size());
    text = std::move(normalized);
  }

 private:
  const icu::Normalizer2* form_;
  icu::FilteredNormalizer2 filtered_;
};

class Prepended final : public Normalizer {
 public:
  explicit Prepended(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(std::string& text, PrecedingText before, TextGrowth& growth) const override {
    if (before == PrecedingText::text || text.empty()) return;
    growth.take(prefix_.size());
    text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplacedText final : public Normalizer {
 public:
  ReplacedText(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::string& text, PrecedingText, TextGrowth& growth) const override {
    pattern_.replace(text, content_, growth);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StrippedText final : public Normalizer {
 public:
  StrippedText(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string& text, PrecedingText, TextGrowth&) const override {
    if (right_) text.resize(white_space_at_end(text));
    if (left_) text.erase(0, white_space_at_begin(text));
  }

 private:
  bool left_, right_;
};

class NormalizerSteps final : public Normalizer {
 public:
  explicit NormalizerSteps(std::vector<std::unique_ptr<const Normalizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(std::string& text, PrecedingText before, TextGrowth& growth) const override {
    for (const auto& step : steps_) step->apply(text, before, growth);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

const icu::Normalizer2* form_named(const std::string& name) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* form = nullptr;
  if (name == "NFC") form = icu::Normalizer2::getNFCInstance(status);
  if (name == "NFD") form = icu::Normalizer2::getNFDInstance(status);
  if (name == "NFKC") form = icu::Normalizer2::getNFKCInstance(status);
  if (name == "NFKD") form = icu::Normalizer2::getNFKDInstance(status);
  return U_SUCCESS(status) ? form : nullptr;
}

}  // namespace

std::unique_ptr<const Normalizer> read_normalizer(const Json& stated, const std::string& what) {
  if (stated.is_null()) return nullptr;
  const JsonPart part(stated, what, "normalizer");
  const std::string type = part.type();
  if (const auto* const form = form_named(type)) return std::make_unique<UnicodeForm>(form);
  if (type == "Prepend") return std::make_unique<Prepended>(part.text("prepend"));
  if (type == "Replace")
    return std::make_unique<ReplacedText>(read_pattern(part), part.text("content"));
  if (type == "Strip")
    return std::make_unique<StrippedText>(part.flag("strip_left", true),
                                          part.flag("strip_right", true));
  if (type != "Sequence") part.refuse_type();
  std::vector<std::unique_ptr<const Normalizer>> steps;
  for (const Json& step : part.list("normalizers"))
    if (auto normalizer = read_normalizer(step, what)) steps.push_back(std::move(normalizer));
  return std::make_unique<NormalizerSteps>(std::move(steps));
}

}  // namespace accrue::data
