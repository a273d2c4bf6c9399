#include "distributed/group/store/sealed_texts.h"

namespace accrue::distributed {
namespace {

/// How often a stranger may overwrite a key between two reads before its text is no longer
/// requested.
constexpr int kTries = 8;

}  // namespace

void SealedTexts::write(const std::string& key, const std::string& text) const {
  client_->set(whole(key), seal_.sealed(whole(key), text));
}

bool SealedTexts::has(const std::string& key) const { return client_->has(whole(key)); }

Reading SealedTexts::read(const std::string& key) const {
  if (!has(key)) return {};
  const std::optional<std::string> bytes = client_->get(whole(key));
  return {.is_there = true,
          .text = bytes ? seal_.opened(whole(key), *bytes) : std::optional<std::string>()};
}

std::string SealedTexts::decide(const std::string& key, const std::string& text) const {
  const std::string sealed = seal_.sealed(whole(key), text);
  std::string expected;
  for (int tries = 0; tries < kTries; ++tries) {
    const std::optional<std::string> there = client_->compare_set(whole(key), expected, sealed);
    if (!there) break;  // too long to be compared
    if (std::optional<std::string> first = seal_.opened(whole(key), *there))
      return std::move(*first);
    expected = *there;
  }
  client_->set(whole(key), sealed);
  return text;
}

}  // namespace accrue::distributed
