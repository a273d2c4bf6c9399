#include "data/tokenizer/pipeline/decoder.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/utf8.h"
#include "data/json/json_part.h"
#include "data/tokenizer/pipeline/pattern.h"
#include "data/tokenizer/unicode/byte_characters.h"

namespace accrue::data {
namespace {

using Json = nlohmann::json;
using Pieces = std::vector<std::string>;

/// Converts characters that represent bytes to these bytes.
class OfBytes final : public Decoder {
 public:
  void apply(Pieces& pieces, TextGrowth&) const override {
    for (std::string& piece : pieces)
      if (auto bytes = bytes_shown_by(piece)) piece = std::move(*bytes);
    pieces = {lossy_utf8(joined(pieces))};
  }
};

class Fuse final : public Decoder {
 public:
  void apply(Pieces& pieces, TextGrowth&) const override { pieces = {joined(pieces)}; }
};

/// Converts tokens "<0x41>" to the bytes that they name, where these are UTF-8.
class OfNamedBytes final : public Decoder {
 public:
  void apply(Pieces& pieces, TextGrowth&) const override {
    Pieces decoded;
    std::string bytes;
    const auto close = [&] {
      if (valid_utf8_prefix(bytes) == bytes.size()) {
        if (!bytes.empty()) decoded.push_back(bytes);
      } else {
        decoded.insert(decoded.end(), bytes.size(), std::string(replacement_character));
      }
      bytes.clear();
    };
    for (std::string& piece : pieces) {
      if (const auto byte = byte_named(piece)) {
        bytes += *byte;
        continue;
      }
      close();
      decoded.push_back(std::move(piece));
    }
    close();
    pieces = std::move(decoded);
  }

 private:
  static std::optional<char> byte_named(std::string_view piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return {};
    unsigned value = 0;
    const char* const end = piece.data() + 5;
    const auto [last, error] = std::from_chars(piece.data() + 3, end, value, 16);
    if (error != std::errc{} || last != end) return {};
    return static_cast<char>(value);
  }
};

class ReplacedPieces final : public Decoder {
 public:
  ReplacedPieces(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(Pieces& pieces, TextGrowth& growth) const override {
    for (std::string& piece : pieces) pattern_.replace(piece, content_, growth);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

/// Removes up to a number of a character from each piece's ends.
class StrippedPieces final : public Decoder {
 public:
  StrippedPieces(std::string content, std::int64_t start, std::int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(Pieces& pieces, TextGrowth&) const override {
    if (content_.empty()) return;
    for (std::string& piece : pieces) {
      std::string_view rest = piece;
      for (std::int64_t i = 0; i < start_ && rest.starts_with(content_); ++i)
        rest.remove_prefix(content_.size());
      for (std::int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i)
        rest.remove_suffix(content_.size());
      if (rest.size() < piece.size()) piece = std::string(rest);
    }
  }

 private:
  std::string content_;
  std::int64_t start_, stop_;
};

/// Converts marked spaces to spaces; those before the text are removed.
class ShownSpaces final : public Decoder {
 public:
  ShownSpaces(std::string shown, bool drops_first) : shown_(shown), drops_first_(drops_first) {}
  void apply(Pieces& pieces, TextGrowth& growth) const override {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      shown_.replace(pieces[i], i == 0 && drops_first_ ? "" : " ", growth);
  }

 private:
  Pattern shown_;
  bool drops_first_;
};

class DecoderSteps final : public Decoder {
 public:
  explicit DecoderSteps(std::vector<std::unique_ptr<const Decoder>> steps)
      : steps_(std::move(steps)) {}
  void apply(Pieces& pieces, TextGrowth& growth) const override {
    for (const auto& step : steps_) step->apply(pieces, growth);
  }

 private:
  std::vector<std::unique_ptr<const Decoder>> steps_;
};

class Spaced final : public Decoder {
 public:
  void apply(Pieces& pieces, TextGrowth&) const override {
    std::string text;
    for (std::size_t i = 0; i < pieces.size(); ++i) text += (i > 0 ? " " : "") + pieces[i];
    pieces = {std::move(text)};
  }
};

bool drops_first_space(const JsonPart& part) {
  if (!part.value("add_prefix_space").is_null() && part.value("prepend_scheme").is_null())
    return part.flag("add_prefix_space", true);
  return part.optional_text("prepend_scheme").value_or("always") != "never";
}

}  // namespace

std::string joined(const Pieces& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

std::unique_ptr<const Decoder> read_decoder(const Json& stated, const std::string& what) {
  constexpr std::int64_t most_stripped = 1 << 20;
  if (stated.is_null()) return std::make_unique<Spaced>();
  const JsonPart part(stated, what, "decoder");
  const std::string type = part.type();
  if (type == "ByteLevel") return std::make_unique<OfBytes>();
  if (type == "ByteFallback") return std::make_unique<OfNamedBytes>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Replace")
    return std::make_unique<ReplacedPieces>(read_pattern(part), part.text("content"));
  if (type == "Strip")
    return std::make_unique<StrippedPieces>(part.text("content"),
                                            part.integer("start", most_stripped),
                                            part.integer("stop", most_stripped));
  if (type == "Metaspace")
    return std::make_unique<ShownSpaces>(part.text("replacement"), drops_first_space(part));
  if (type != "Sequence") part.refuse_type();
  std::vector<std::unique_ptr<const Decoder>> steps;
  for (const Json& step : part.list("decoders")) steps.push_back(read_decoder(step, what));
  return std::make_unique<DecoderSteps>(std::move(steps));
}

}  // namespace accrue::data
