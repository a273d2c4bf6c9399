#include "accrue/data/source.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "accrue/core/error.h"
#include "glob.h"
#include "token_stream.h"

namespace accrue::data {
namespace {

using Paths = std::vector<std::filesystem::path>;

constexpr std::int64_t byte_vocab = 256;

enum class Format { text, tokens };

bool is_token_file(const std::filesystem::path& path) { return path.extension() == ".bin"; }

void check_options(const SourceOptions& options, const std::string& what) {
  if (options.format != "auto" && options.format != "text" && options.format != "tokens") {
    throw usage_error(what, "format auto, text or tokens",
                      "'" + options.format + "', which is not in this version", "text or tokens");
  }
  if (options.tokenizer != "bytes") {
    throw usage_error(what, "tokenizer bytes",
                      "'" + options.tokenizer + "', which is not in this version",
                      "bytes, or token files made with that tokenizer");
  }
  if (options.context < 1) {
    throw usage_error(what, "a context of at least one token", std::to_string(options.context),
                      "a positive model.context");
  }
}

Format format_of(const std::string& format, const Paths& paths, const std::string& what) {
  if (format == "text") return Format::text;
  if (format == "tokens") return Format::tokens;
  const auto tokens = std::find_if(paths.begin(), paths.end(), is_token_file);
  if (tokens == paths.end()) return Format::text;
  const auto text = std::find_if_not(paths.begin(), paths.end(), is_token_file);
  if (text == paths.end()) return Format::tokens;
  throw usage_error(what, "files of one format",
                    tokens->string() + " (tokens) beside " + text->string() + " (text)",
                    "stating data.format, or globs that match only one of them");
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

StreamTraits traits_of(const SourceOptions& options, Format format) {
  const bool is_text = format == Format::text;
  return {.format = is_text ? "text" : "tokens",
          .context = options.context,
          .vocab = is_text ? byte_vocab : 0,
          .vocab_bound = options.vocab};
}

class Slice final : public Source {
 public:
  Slice(std::shared_ptr<const Source> source, std::int64_t begin, std::int64_t end)
      : source_(std::move(source)), begin_(begin), end_(end) {
    if (begin < 0 || begin > end || end > source_->size()) {
      throw usage_error("slice data",
                        "a part of its " + std::to_string(source_->size()) + " samples", range(),
                        "a smaller val_fraction or more data");
    }
  }

  std::int64_t size() const override { return end_ - begin_; }
  std::int64_t vocab() const override { return source_->vocab(); }
  std::string fingerprint() const override {
    return source_->fingerprint() + ", samples " + range();
  }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    std::vector<std::int64_t> shifted(indices.begin(), indices.end());
    for (std::int64_t& index : shifted) {
      if (index < 0 || index >= size()) {
        throw usage_error("fetch samples", "indices in [0, " + std::to_string(size()) + ")",
                          std::to_string(index), "a sampler of this source's size");
      }
      index += begin_;
    }
    return source_->fetch(shifted);
  }

 private:
  std::string range() const {
    return std::string("[").append(std::to_string(begin_)) + ", " + std::to_string(end_) + ")";
  }

  std::shared_ptr<const Source> source_;
  std::int64_t begin_;
  std::int64_t end_;
};

}  // namespace

std::unique_ptr<Source> open_source(const SourceOptions& options, const std::string& what) {
  check_options(options, what);
  Paths paths = expand_globs(options.globs, what);
  const Format format = format_of(options.format, paths, what);
  auto files = std::make_unique<const FilePool>(std::move(paths), what);
  auto layouts = layouts_of(*files, format, what);
  return std::make_unique<TokenStream>(std::move(files), std::move(layouts),
                                       traits_of(options, format), what);
}

std::unique_ptr<Source> slice(std::shared_ptr<const Source> source, std::int64_t begin,
                              std::int64_t end) {
  return std::make_unique<Slice>(std::move(source), begin, end);
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
