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

/// Converts text to token ids and back, as specified by a tokenizer.json (Hugging Face's
/// tokenizers) and the files next to it: with the ids of transformers' AutoTokenizer (5.24).
/// Byte-level BPE (GPT-2, Llama 3, Qwen) and BPE on characters with fallback to bytes (Llama 2,
/// Gemma, Mistral). Thread-safe.
class Tokenizer {
 public:
  /// Throws a usage Error with the operation `what` that names the part of the file that is
  /// missing, contradictory, or of an unsupported kind.
  static std::shared_ptr<const Tokenizer> open(const std::filesystem::path& file,
                                               const std::string& what);
  ~Tokenizer();

  /// One more than the largest id.
  std::int64_t vocab() const;
  std::optional<std::int64_t> id_of(std::string_view token) const;
  /// Whether the token exists: ids may have gaps, and a model may have more ids.
  bool has(std::int64_t id) const;
  /// The ids of tokens that do not stand for text ("<|endoftext|>", "[MASK]"), in order.
  std::vector<std::int64_t> special_ids() const;
  /// The special tokens that have names ("bos_token", "image_token"), for chat templates: each name
  /// once with the token's text, in the order of the files.
  const std::vector<std::pair<std::string, std::string>>& special_texts() const;
  /// A digest of the files' contents: the same for the same content.
  const std::string& fingerprint() const;
  const std::filesystem::path& file() const;
  /// The token after a complete text: the eos_token of transformers' AutoTokenizer, or
  /// else the first special token in "eos_token_id" of generation_config.json or
  /// config.json.
  std::optional<std::int64_t> end_of_text() const;

  /// Tokens that the template adds around a text.
  struct Around {
    std::vector<std::int64_t> before, after;
  };
  const Around& around() const;

  /// Returns the tokens of a text, with those of the template (for example a beginning of text) if
  /// `with_template`. Throws a usage Error that names the position if the text is not UTF-8.
  std::vector<std::int64_t> encode(std::string_view text, bool with_template = false) const;

  /// Returns the text of tokens, UTF-8, without special ones if `skip_special`. Invalid UTF-8 (part
  /// of a character) becomes U+FFFD. Throws a usage Error for an id that is not a token.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special = false) const;

  class Encoder;
  class Decoder;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

/// Encodes many texts, and caches the words that it has seen. One per thread.
class Tokenizer::Encoder {
 public:
  /// `tokenizer` is kept by reference.
  explicit Encoder(const Tokenizer& tokenizer);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) = delete;

  /// Appends the tokens of a text, like Tokenizer::encode without a template. If `goes_on`, the
  /// text continues the one in `ids`: a prefix that the tokenizer adds to every text (a space) is
  /// left out.
  void encode(std::string_view text, std::vector<std::int64_t>& ids, bool goes_on = false);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decodes tokens one by one, as they are sampled. The pieces together equal decode() of all
/// tokens, and none ends within a character. If bytes turn out not to be UTF-8, which decode()
/// shows as U+FFFD each, complete characters before them were already returned.
class Tokenizer::Decoder {
 public:
  /// `tokenizer` is kept by reference.
  explicit Decoder(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  /// Returns the new text after one more token; empty if a character is not complete yet.
  std::string add(std::int64_t id);
  /// Returns the rest of the text at the end.
  std::string end();

 private:
  std::string rest(bool is_last);
  void keep_last_only();

  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::vector<std::int64_t> ids_;  ///< the last ones
  std::string said_;               ///< the part of their text that was returned
};

}  // namespace accrue::data
