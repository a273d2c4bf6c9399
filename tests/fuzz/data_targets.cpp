// Files of training data, each opened and read as training does.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "accrue/data/source.h"
#include "accrue/data/tokenizer.h"
#include "core/utf8.h"
#include "data/images/decode/image_decode.h"
#include "data/images/transform/image_fit.h"
#include "data/tokenizer/folder/folder_tokens.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "data/tokenizer/regex/regex.h"
#include "fuzz_targets.h"
#include "scratch.h"

namespace accrue::fuzz {
namespace {

constexpr std::int64_t most_samples = 64;  // read from one input, so that it stays quick

/// Each sample alone, and all of them together.
void read_all(const data::Source& source) {
  const std::int64_t count = std::min(source.size(), most_samples);
  expect(count > 0, "an accepted source has samples");
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  for (const std::int64_t index : all) {
    expect(source.tokens(index) > 0, "a sample has tokens");
    source.fetch(std::span(&index, 1));
  }
  source.fetch(all);
  source.fingerprint();
}

void open_and_read(const std::filesystem::path& file, std::optional<data::Format> format,
                   bool packing, bool pairs = false, std::vector<std::string> columns = {}) {
  read_all(*data::open_source({.globs = {file.string()},
                               .format = format,
                               .context = 16,
                               .vocab = format == data::Format::images ? 0 : 1000,
                               .packing = packing,
                               .pairs = pairs,
                               .columns = std::move(columns)},
                              "data.train"));
}

/// The first two bytes are the length of the first part.
std::pair<Input, Input> two_parts(Input input) {
  if (input.size() < 2) return {};
  const std::size_t stated = std::size_t{input[0]} << 8 | input[1];
  const Input rest = input.subspan(2);
  const std::size_t first = std::min(stated, rest.size());
  return {rest.first(first), rest.subspan(first)};
}

/// Encodes a text and decodes it again.
void encode_and_decode(const data::Tokenizer& tokenizer) {
  const std::vector<std::int64_t> ids =
      tokenizer.encode("  It's 123 words,\r\n\t\u00e9\u4e2d\U0001f600 <unk><s>\u2581a", true);
  for (const std::int64_t id : ids)
    expect(id >= 0 && id < tokenizer.vocab(), "ids are those of tokens");
  tokenizer.decode(ids, true);
  data::Tokenizer::Decoder stream(tokenizer);
  for (const std::int64_t id : ids) stream.add(id);
  stream.end();
}

/// Writes files of a folder, each ended by a zero byte; an empty file is not written.
void put_parts(const std::string& folder, std::span<const char* const> names, Input input) {
  std::size_t at = 0;
  for (const char* const name : names) {
    std::size_t end = at;
    while (end < input.size() && input[end] != 0) ++end;
    const std::filesystem::path file = put(folder + "/" + name, input.subspan(at, end - at));
    if (end == at) std::filesystem::remove(file);
    at = std::min(end + 1, input.size());
  }
}

}  // namespace

void fuzz_tokenizer(Input input) {
  const std::filesystem::path file = put("tokenizer/tokenizer.json", input);
  expect(data::find_tokenizer(file.parent_path()).kind != data::FolderTokenizer::Kind::none,
         "a tokenizer that is there is of one kind or the other");
  encode_and_decode(*data::Tokenizer::open(file, "data.tokenizer"));
}

void fuzz_tokenizer_folder(Input input) {
  constexpr std::array names{data::kTokenizerFile,    data::kTokenizerSettings,
                             data::kSpecialTokensMap, data::kAddedTokens,
                             data::kModelConfig,      data::kGenerationConfig};
  put_parts("tokenizer_folder", names, input);
  const std::filesystem::path file = scratch("tokenizer_folder/tokenizer.json");
  const data::FolderTokens read = data::read_folder_tokens(file, "data.tokenizer");
  const auto tokenizer = data::Tokenizer::open(file, "data.tokenizer");
  for (const auto& token : read.tokenizer.at("added_tokens"))
    expect(tokenizer->has(token.at("id").get<std::int64_t>()), "what is added is a token");
  if (const auto end = tokenizer->end_of_text())
    expect(tokenizer->has(*end), "a text ends with a token");
  encode_and_decode(*tokenizer);
}

/// The first two bytes are the length of the pattern; the rest is a text.
void fuzz_pattern(Input input) {
  constexpr std::size_t most_text = 256;  // longer texts only take longer
  const auto [pattern, rest] = two_parts(input);
  const data::Regex regex(std::string(text_of(pattern)), "data.tokenizer");
  const std::string text = lossy_utf8(text_of(rest.first(std::min(rest.size(), most_text))));
  data::Regex::Matcher matcher(regex, text);
  std::size_t end = 0;
  while (const auto match = matcher.next()) {
    expect(match->begin <= match->end && match->end <= text.size(), "a match lies in its text");
    expect(match->end >= end, "matches follow each other");
    for (const std::size_t place : {match->begin, match->end})
      expect(valid_utf8_prefix(std::string_view(text).substr(0, place)) == place,
             "a match divides no character");
    end = match->end;
  }
}

/// Bits of the first byte, in order: whether samples are packed, whether they are pairs, whether
/// fields are tensors by name, whether the file's name and format are unknown.
void fuzz_jsonl(Input input) {
  if (input.empty()) return;
  if ((input[0] & 8) != 0)
    return open_and_read(put("unnamed", input.subspan(1)), std::nullopt, false);
  if ((input[0] & 4) != 0)
    return open_and_read(put("lines.jsonl", input.subspan(1)), data::Format::jsonl, false, false,
                         {"input_ids", "attention_mask", "labels"});
  open_and_read(put("lines.jsonl", input.subspan(1)), data::Format::jsonl, (input[0] & 1) != 0,
                (input[0] & 2) != 0);
}

void fuzz_tokens(Input input) { open_and_read(put("ids.bin", input), data::Format::tokens, false); }

void fuzz_images(Input input) {
  constexpr std::int64_t most_pixels = std::int64_t{1} << 22;  // larger images only take longer
  const auto encoded = std::as_bytes(input);
  const auto shape = data::image_shape_of(encoded);
  if (!shape) return;
  expect(shape->channels == 1 || shape->channels == 3, "images are grey or colour");
  expect(shape->height > 0 && shape->width > 0, "images have pixels");
  if (shape->height * shape->width > most_pixels) return;
  data::DecodedImage image;
  if (!data::decode_image(encoded, image).empty()) return;
  expect(image.shape == *shape, "an image has the shape that its header says");
  for (const data::ImageShape& target : {*shape, data::ImageShape{3, 8, 5}, {1, 5, 8}}) {
    std::vector<std::uint8_t> planes(
        static_cast<std::size_t>(target.channels * target.height * target.width));
    data::fit_image(image, target, planes);
  }
}

void fuzz_idx(Input input) {
  const auto [images, labels] = two_parts(input);
  put("idx/x-labels-idx1-ubyte", labels);
  open_and_read(put("idx/x-images-idx3-ubyte", images), data::Format::images, false);
}

/// Only labels matter, so a byte of input stands for 16 bytes of a file.
void fuzz_cifar(Input input) {
  std::vector<std::uint8_t> file(input.size() * 16);
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = input[i / 16];
  if (!input.empty()) file.resize(file.size() - input[0] % 16);
  open_and_read(put("data_batch.bin", file), data::Format::images, false);
}

}  // namespace accrue::fuzz
