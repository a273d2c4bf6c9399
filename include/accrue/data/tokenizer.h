#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accrue::data {

/// Text to token ids and back, as a tokenizer.json (Hugging Face's tokenizers) and the files beside
/// it say: the same ids as transformers' AutoTokenizer (5.24) gives. Byte-level BPE (GPT-2, Llama
/// 3, Qwen) and BPE on characters with fallback to bytes (Llama 2, Gemma, Mistral). Safe to use
/// from several threads.
class Tokenizer {
 public:
  /// Throws a usage Error, its operation being `what`, that names what of the file is missing,
  /// contradicts itself, or is of a kind that this version does not know.
  static std::shared_ptr<const Tokenizer> open(const std::filesystem::path& file,
                                               const std::string& what);
  ~Tokenizer();

  /// One more than the largest id.
  std::int64_t vocab() const;
  std::optional<std::int64_t> id_of(std::string_view token) const;
  /// Whether there is such a token: ids may have gaps, and a model more of them.
  bool has(std::int64_t id) const;
  /// The ids of tokens that stand for no text of their own ("<|endoftext|>", "[MASK]"), in order.
  std::vector<std::int64_t> special_ids() const;
  /// The special tokens that have names ("bos_token", "image_token"), as chat templates read them:
  /// each name once with the token's text, in the order in which the files have the names.
  const std::vector<std::pair<std::string, std::string>>& special_texts() const;
  /// A digest of what the files say: the same for the same content.
  const std::string& fingerprint() const;
  const std::filesystem::path& file() const;
  /// The token behind a text that is whole: the eos_token that transformers' AutoTokenizer has, or
  /// else the first special token that "eos_token_id" of generation_config.json or config.json
  /// names.
  std::optional<std::int64_t> end_of_text() const;

  /// Tokens that the template puts around a text.
  struct Around {
    std::vector<std::int64_t> before, after;
  };
  const Around& around() const;

  /// The tokens of a text, with those of the template around it (a beginning of text, say) where
  /// `with_template`. Throws a usage Error that names the place where the text is no UTF-8.
  std::vector<std::int64_t> encode(std::string_view text, bool with_template = false) const;

  /// The text of tokens, UTF-8; without special ones where `skip_special`. What is no UTF-8 (half
  /// a character) becomes U+FFFD. Throws a usage Error for an id that is no token.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special = false) const;

  class Encoder;
  class Decoder;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

/// Encodes text after text, and remembers the words that it saw. One per thread.
class Tokenizer::Encoder {
 public:
  /// `tokenizer` is kept by reference.
  explicit Encoder(const Tokenizer& tokenizer);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) = delete;

  /// Appends the tokens of a text, as Tokenizer::encode without a template; or of a part that goes
  /// on a text that `ids` have: a tokenizer that puts something before every text (a space) does
  /// not put it there.
  void encode(std::string_view text, std::vector<std::int64_t>& ids, bool goes_on = false);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decodes tokens one by one, as they are sampled: the pieces together are what decode() gives of
/// all, and none ends within a character. Of bytes that turn out to be no UTF-8, which decode()
/// shows as U+FFFD each, whole characters before them have been told by then.
class Tokenizer::Decoder {
 public:
  /// `tokenizer` is kept by reference.
  explicit Decoder(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  /// What can be said after one more token; empty if a character is not whole yet.
  std::string add(std::int64_t id);
  /// What was held back, at the end.
  std::string end();

 private:
  std::string rest(bool is_last);
  void forget_all_but_the_last();

  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::vector<std::int64_t> ids_;  ///< the last ones
  std::string said_;               ///< what was told of their text
};

}  // namespace accrue::data
