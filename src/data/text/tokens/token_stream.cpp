#include "data/text/tokens/token_stream.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <utility>

#include "accrue/core/error.h"
#include "data/source_errors.h"
#include "data/text/samples/token_in_words.h"
#include "data/text/tokens/too_few_tokens.h"

namespace accrue::data {
namespace {

template <class Token>
void widen(std::span<const std::byte> bytes, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Token token;
    std::memcpy(&token, bytes.data() + i * sizeof(Token), sizeof(Token));
    out[i] = token;
  }
}

void widen(std::span<const std::byte> bytes, std::int64_t width, std::span<std::int64_t> out) {
  if (width == 1) return widen<std::uint8_t>(bytes, out);
  if (width == 2) return widen<std::uint16_t>(bytes, out);
  widen<std::uint32_t>(bytes, out);
}

}  // namespace

TokenStream::TokenStream(StreamContent content, StreamTraits traits, const std::string& what)
    : content_(std::move(content)),
      traits_(std::move(traits)),
      fingerprint_(
          with_tokenizer(std::string(to_string(traits_.format)) + (traits_.whole ? ", whole" : ""),
                         traits_.tokenizer.get()),
          identity()) {
  std::int64_t total = 0;
  for (const TokenLayout& layout : content_.layouts) ends_.push_back(total += layout.tokens);
  const std::int64_t least = traits_.context + traits_.only_predicted();
  if (total < least) {
    throw TooFewTokens(
        usage_error(what,
                    "at least " + std::to_string(least) + " tokens (a context of " +
                        std::to_string(traits_.context) +
                        (traits_.whole ? ")" : " and one more to predict)"),
                    std::to_string(total) + " in " + std::to_string(identity().count()) +
                        " file(s), the first being " + identity().path(0).string(),
                    "more data or a shorter context"),
        traits_.context, std::max<std::int64_t>(0, total - traits_.only_predicted()));
  }
}

std::vector<std::string> TokenStream::remarks() const {
  return content_.cache ? content_.cache->remarks() : std::vector<std::string>{};
}

std::int64_t TokenStream::size() const {
  return (length() - traits_.only_predicted()) / traits_.context;
}

batch::MicroBatch TokenStream::fetch(std::span<const std::int64_t> indices) const {
  const auto rows = static_cast<std::int64_t>(indices.size());
  const std::int64_t context = traits_.context;
  batch::MicroBatch micro{.inputs = at::empty({rows, context}, at::kLong),
                          .targets = at::empty({rows, context}, at::kLong),
                          .sample_ids = {},
                          .tokens = rows * context};
  auto* inputs = micro.inputs.data_ptr<std::int64_t>();
  auto* targets = micro.targets.data_ptr<std::int64_t>();
  const std::int64_t shift = traits_.only_predicted();
  std::vector<std::int64_t> window(static_cast<std::size_t>(context + shift));
  Scratch scratch;
  for (const std::int64_t index : indices) {
    require_index(index, size());
    read(index * context, window, scratch);
    inputs = std::copy_n(window.begin(), context, inputs);
    targets = std::copy_n(window.begin() + shift, context, targets);
  }
  return micro;
}

void TokenStream::read(std::int64_t first, std::span<std::int64_t> out, Scratch& scratch) const {
  auto file =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) - ends_.begin());
  for (; !out.empty(); ++file) {
    const auto count = std::min(out.size(), static_cast<std::size_t>(ends_[file] - first));
    if (count == 0) continue;  // an empty text file
    const std::int64_t begin = ends_[file] - content_.layouts[file].tokens;
    read_file(file, first - begin, out.first(count), scratch);
    out = out.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

void TokenStream::read_file(std::size_t file, std::int64_t first, std::span<std::int64_t> out,
                            Scratch& scratch) const {
  const TokenLayout& layout = content_.layouts[file];
  scratch.resize(out.size() * static_cast<std::size_t>(layout.width));
  pool().read(file, layout.offset + first * layout.width, scratch);
  widen(scratch, layout.width, out);
  if (traits_.vocab_bound > 0) check_vocab(file, first, out);
}

std::vector<TokenStream::Piece> TokenStream::pieces_to_check() const {
  constexpr std::int64_t piece_tokens = std::int64_t{1} << 20;
  std::vector<Piece> pieces;
  if (traits_.vocab_bound == 0) return pieces;
  for (std::size_t file = 0; file < content_.layouts.size(); ++file) {
    const TokenLayout& layout = content_.layouts[file];
    if (traits_.vocab_bound >= std::int64_t{1} << 8 * layout.width) continue;
    for (std::int64_t first = 0; first < layout.tokens; first += piece_tokens)
      pieces.push_back({file, first, std::min(piece_tokens, layout.tokens - first)});
  }
  return pieces;
}

void TokenStream::check(const Piece& piece) const {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(piece.count));
  Scratch scratch;
  read_file(piece.file, piece.first, ids, scratch);
}

void TokenStream::check_contents() const {
  std::call_once(checked_, [this] {
    const std::vector<Piece> pieces = pieces_to_check();
    const std::int64_t count = std::ssize(pieces);
    std::atomic<std::int64_t> first_bad{count};
    std::exception_ptr problem;  // from the first bad piece, found by any thread
    std::mutex mutex;
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < std::min(end, first_bad.load()); ++i) {
        try {
          check(pieces[static_cast<std::size_t>(i)]);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (i < first_bad) problem = std::current_exception();
          first_bad = std::min(i, first_bad.load());
        }
      }
    });
    if (problem) std::rethrow_exception(problem);
  });
}

void TokenStream::check_vocab(std::size_t file, std::int64_t first,
                              std::span<const std::int64_t> ids) const {
  const auto bad = std::find_if(ids.begin(), ids.end(),
                                [bound = traits_.vocab_bound](auto id) { return id >= bound; });
  if (bad == ids.end()) return;
  const Tokenizer* const tokenizer = traits_.tokenizer.get();
  const std::int64_t place = first + (bad - ids.begin());
  const std::string expected =
                        "token ids below the vocabulary of " + std::to_string(traits_.vocab_bound),
                    received =
                        token_in_words(*bad, tokenizer) + " at token " + std::to_string(place);
  if (tokenizer == nullptr)
    throw usage_error("read " + pool().path(file).string(), expected, received,
                      "a larger model.vocab, or data made with this model's tokenizer");
  // All text files become one token file.
  throw usage_error(
      "read " + identity().path(0).string() + (identity().count() > 1 ? " and other files" : ""),
      expected, received + ", in sample " + std::to_string(place / traits_.context),
      "a model with as many tokens as its tokenizer, or text without it");
}

}  // namespace accrue::data
