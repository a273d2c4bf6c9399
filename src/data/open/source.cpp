#include "accrue/data/source.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "accrue/core/error.h"
#include "data/chat/format/chat_format.h"
#include "data/files/glob.h"
#include "data/files/sniffed_file.h"
#include "data/images/sets/image_set_file.h"
#include "data/images/sets/image_source.h"
#include "data/parquet/table_lines.h"
#include "data/text/sources/column_source.h"
#include "data/text/sources/first_line.h"
#include "data/text/sources/jsonl_source.h"
#include "data/text/tokens/byte_vocab.h"
#include "data/text/tokens/text_tokens.h"
#include "data/text/tokens/token_stream.h"

namespace accrue::data {
namespace {

using Paths = std::vector<std::filesystem::path>;

/// Whether each line of a file, or row of a table, is one or several samples.
bool has_lines(Format format) {
  return format == Format::jsonl || format == Format::chat || format == Format::parquet;
}

void check_columns(const SourceOptions& options, Format format, const std::string& what) {
  if (options.columns.empty()) return;
  if (format != Format::jsonl && format != Format::parquet)
    throw usage_error("data.columns", "lines of JSON, or tables", to_string(format),
                      "data.format = \"jsonl\", or leaving data.columns out");
  if (options.pairs || options.packing)
    throw usage_error("data.columns", "samples that are rows of tensors",
                      options.pairs ? "pairs" : "samples that share a row",
                      options.pairs ? "another loss" : "data.packing = false");
  const std::set<std::string> names(options.columns.begin(), options.columns.end());
  if (names.size() != options.columns.size() || names.contains(""))
    throw usage_error(what, "data.columns with a name for each", "a name twice, or an empty one",
                      "the names of the lines' fields");
}

/// Images of another source to which masks may belong.
Paths other_images_of(const SourceOptions& options) {
  if (options.masks.empty() || options.other_images.empty()) return {};
  Paths others = expand_globs(options.other_images, "data.masks");
  const std::set<std::filesystem::path> excluded =
      matching(others, options.exclude, "data.exclude");
  std::erase_if(others, [&](const auto& path) { return excluded.contains(path); });
  return others;
}

/// Throws a usage Error if an option does not fit the format that was found.
void check_format(const SourceOptions& options, Format format, const std::string& what) {
  if (format != Format::images && options.context < 1) {
    throw usage_error(what, "a context of at least one token", std::to_string(options.context),
                      "a positive model.context");
  }
  if (format != Format::images && options.image != ImageShape{}) {
    throw usage_error(what, "images, as data.image or the training data ask for", to_string(format),
                      "data.format = \"images\", or other files");
  }
  if (format != Format::images && options.augment.changes_anything()) {
    throw usage_error("data.augment", "images", to_string(format),
                      "leaving it out, or data.format = \"images\"");
  }
  if (format != Format::images && !options.masks.empty()) {
    throw usage_error("data.masks", "images in " + what, to_string(format),
                      "leaving it out, or patterns of PNG or JPEG files");
  }
  if (!has_lines(format) && options.pairs) {
    throw usage_error(what, R"(lines of JSON with "prompt", "chosen" and "rejected")",
                      to_string(format), "data.format = \"jsonl\" or \"chat\", or another loss");
  }
  check_columns(options, format, what);
  if (!has_lines(format) && options.packing) {
    throw usage_error("data.packing", "samples of different lengths (jsonl, chat, parquet)",
                      std::string(to_string(format)) + ", whose samples are all of one length",
                      "packing = false");
  }
}

std::string with_format(const std::filesystem::path& path, const SniffedFile& look) {
  return path.string() + " (" + std::string(to_string(look.format)) + ")";
}

/// The contents of each file. CIFAR's records are in .bin files, like token ids, and an idx file,
/// which begins with a zero byte, looks like a file that is not text.
std::vector<SniffedFile> looks_of(const Paths& paths, const std::string& what) {
  std::vector<SniffedFile> looks = sniff_files(paths, what);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const bool may_be_images = looks[i].format == Format::tokens ||
                               (looks[i].format == Format::text && !looks[i].is.empty());
    if (may_be_images && is_image_set_file(paths[i])) looks[i] = {.format = Format::images};
  }
  return looks;
}

/// The format of the files, if data.format does not state it.
Format format_of(const Paths& paths, const std::string& what) {
  const std::vector<SniffedFile> looks = looks_of(paths, what);
  const Format first = looks.front().format;
  const auto other = std::ranges::find_if(
      looks, [first](const SniffedFile& look) { return look.format != first; });
  if (other != looks.end())
    throw usage_error(
        what, "files of one format",
        with_format(paths.front(), looks.front()) + " beside " +
            with_format(paths[static_cast<std::size_t>(other - looks.begin())], *other),
        "stating data.format, or globs that match only one of them");
  refuse_non_text(paths, looks, what);
  return first;
}

void expect_content(const FilePool& files, const std::string& what) {
  for (std::size_t file = 0; file < files.count(); ++file)
    if (files.bytes(file) > 0) return;
  const std::string first = files.path(0).string();
  throw usage_error(what, "files that hold something",
                    files.count() == 1
                        ? first + ": an empty file"
                        : std::to_string(files.count()) + " empty files, the first being " + first,
                    "text in it, lines of JSON (.jsonl) or token ids (.bin), or another file");
}

std::vector<TokenLayout> layouts_of(const FilePool& files, Format format, const std::string& what) {
  std::vector<TokenLayout> layouts;
  layouts.reserve(files.count());
  for (std::size_t file = 0; file < files.count(); ++file) {
    layouts.push_back(format == Format::text ? text_layout(files, file)
                                             : token_layout(files, file, what));
  }
  return layouts;
}

StreamTraits traits_of(const SourceOptions& options, Format format,
                       std::shared_ptr<const Tokenizer> tokenizer) {
  StreamTraits traits{.format = format,
                      .context = options.context,
                      .vocab_bound = options.vocab,
                      .whole = options.whole};
  if (format != Format::text) return traits;
  traits.vocab = tokenizer ? tokenizer->vocab() : byte_vocab;
  traits.tokenizer = std::move(tokenizer);
  return traits;
}

/// A file of tokens in place of the text files.
StreamContent tokenized(std::unique_ptr<const FilePool> text, const Tokenizer& tokenizer,
                        const SourceOptions& options, const std::string& what) {
  TextTokens tokens = tokens_of_text(*text, tokenizer, std::make_shared<TextCache>(options.cache),
                                     options.tell_progress, what);
  return {.files = std::move(tokens.file),
          .layouts = {tokens.layout},
          .text = std::move(text),
          .cache = std::move(tokens.cache)};
}

std::shared_ptr<const ChatFormat> chat_format_of(const Tokenizer* tokenizer) {
  const std::string what = "data.tokenizer, for lines with \"messages\"";
  if (tokenizer == nullptr)
    throw usage_error(what, "a tokenizer with a chat template", "bytes",
                      "the folder of a chat model's tokenizer, or a model.from with one");
  return read_chat_format(*tokenizer, what);
}

}  // namespace

std::unique_ptr<Source> open_source(const SourceOptions& options, const std::string& what) {
  const FoundFiles found = find_files(options.globs, what);
  std::set<std::filesystem::path> excluded = matching(found.files, options.exclude, "data.exclude");
  Paths paths = without(found.files, excluded, what);
  const Format format = options.format ? *options.format : format_of(paths, what);
  check_format(options, format, what);
  if (format == Format::images) {
    return open_images(found,
                       {.globs = options.globs,
                        .classes = options.classes,
                        .class_bound = options.vocab,
                        .excluded = std::move(excluded),
                        .masks = options.masks,
                        .other_images = other_images_of(options),
                        .shape = options.image,
                        .augment = options.augment,
                        .seed = options.seed},
                       what);
  }
  TableLines lines;
  if (format == Format::parquet) lines = lines_of_tables(paths, options.cache, what);
  auto files = format == Format::parquet ? std::make_unique<const FilePool>(lines.files, what)
                                         : std::make_unique<const FilePool>(std::move(paths), what);
  expect_content(*files, what);
  if (!options.columns.empty())
    return std::make_unique<ColumnSource>(std::move(files),
                                          ColumnOptions{.columns = options.columns,
                                                        .context = options.context,
                                                        .lines = std::move(lines.cache),
                                                        .tell_progress = options.tell_progress},
                                          what);
  std::shared_ptr<const Tokenizer> tokenizer;
  if (format != Format::tokens && options.tokenizer) tokenizer = options.tokenizer();
  if (has_lines(format)) {
    const bool is_chat = format == Format::chat ||
                         ((!options.format || format == Format::parquet) &&
                          holds_conversations(*files, options.pairs, tokenizer.get(), what));
    return std::make_unique<JsonlSource>(
        std::move(files),
        JsonlOptions{.context = options.context,
                     .vocab_bound = options.vocab,
                     .packing = options.packing,
                     .pairs = options.pairs,
                     .whole = options.whole,
                     .tokenizer = tokenizer,
                     .chat = is_chat ? chat_format_of(tokenizer.get()) : nullptr,
                     .cache = options.cache,
                     .lines = std::move(lines.cache),
                     .notes = std::move(lines.notes),
                     .tell_progress = options.tell_progress},
        what);
  }
  StreamContent content;
  if (tokenizer) {
    content = tokenized(std::move(files), *tokenizer, options, what);
  } else {
    content.layouts = layouts_of(*files, format, what);
    content.files = std::move(files);
  }
  return std::make_unique<TokenStream>(std::move(content),
                                       traits_of(options, format, std::move(tokenizer)), what);
}

std::string bytes_to_text(std::span<const std::int64_t> ids) {
  std::string text;
  text.reserve(ids.size());
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= byte_vocab) {
      throw usage_error("decode bytes", "token ids from 0 to 255", std::to_string(id),
                        "a model whose vocabulary is 256");
    }
    text.push_back(static_cast<char>(static_cast<unsigned char>(id)));
  }
  return text;
}

std::vector<std::int64_t> text_to_bytes(std::string_view text) {
  std::vector<std::int64_t> ids(text.size());
  std::transform(text.begin(), text.end(), ids.begin(),
                 [](char c) { return static_cast<unsigned char>(c); });
  return ids;
}

}  // namespace accrue::data
