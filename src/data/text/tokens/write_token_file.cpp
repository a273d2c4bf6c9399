#include "data/text/tokens/write_token_file.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "data/sequence_batch.h"
#include "data/text/tokens/token_bytes.h"
#include "data/text/tokens/token_file.h"

namespace accrue::data {
namespace {

class TokenFileWriter {
 public:
  TokenFileWriter(const Source& source, std::int64_t vocab, const std::string& what)
      : source_(source),
        width_(token_width(vocab)),
        is_stream_(source.uniform_tokens().has_value()),
        what_(what) {}

  /// Counts the tokens of all samples. Those of one stream share a token with their neighbours: the
  /// last of each is the first of the next.
  std::int64_t count() const {
    if (is_stream_) return source_.size() * *source_.uniform_tokens() + 1;
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < source_.size(); ++i) tokens += source_.tokens(i) + 1;
    return tokens;
  }

  void write(AtomicFile& out) const {
    constexpr std::int64_t blocks_at_once = 64;
    if (width_ == 4) out.write(token_header(checked_count(), width_));
    const std::int64_t blocks = (source_.size() + samples_a_block - 1) / samples_a_block;
    std::vector<std::string> encoded;
    for (std::int64_t first = 0; first < blocks; first += blocks_at_once) {
      encoded.assign(static_cast<std::size_t>(std::min(blocks_at_once, blocks - first)), {});
      at::parallel_for(0, std::ssize(encoded), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          encoded[static_cast<std::size_t>(i)] = block(first + i);
      });
      for (const std::string& bytes : encoded) out.write(bytes);
    }
  }

 private:
  static constexpr std::int64_t samples_a_block = 64;

  std::int64_t checked_count() const {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (count() <= most) return count();
    throw usage_error(
        what_, "at most " + std::to_string(most) + " tokens a file, as its header counts",
        std::to_string(count()) + " tokens", "fewer files at once, each with an --out of its own");
  }

  /// The ids of some samples, as bytes.
  std::string block(std::int64_t index) const {
    const std::int64_t begin = index * samples_a_block,
                       end = std::min(source_.size(), begin + samples_a_block);
    std::string bytes;
    for (std::int64_t i = begin; i < end; ++i) {
      const batch::MicroBatch sample = source_.fetch(std::span(&i, 1));
      const std::int64_t length = source_.tokens(i);
      const auto* inputs = sample.inputs.const_data_ptr<std::int64_t>();
      const auto* targets = sample.targets.const_data_ptr<std::int64_t>();
      if (std::find(targets, targets + length, ignored_target) != targets + length)
        throw usage_error(what_, "text whose tokens are all to be learned",
                          "a sample with a prompt, or with labels of -100",
                          "training on these lines as they are (data.format = \"jsonl\")");
      if (sample.weights.defined() && !sample.weights.eq(1).all().item<bool>())
        throw usage_error(what_, "samples of weight 1, as a token file has no others",
                          "a sample with another \"weight\"",
                          "training on these lines as they are (data.format = \"jsonl\")");
      append_ids({inputs, static_cast<std::size_t>(length)}, width_, bytes);
      const bool is_last = i + 1 == source_.size();
      if (!is_stream_ || is_last) append_ids({targets + length - 1, 1}, width_, bytes);
    }
    return bytes;
  }

  const Source& source_;
  std::int64_t width_;
  bool is_stream_;
  const std::string& what_;
};

}  // namespace

std::int64_t write_token_file(const Source& source, std::int64_t vocab,
                              const std::filesystem::path& file, const std::string& what) {
  const TokenFileWriter writer(source, vocab, what);
  AtomicFile out(file);
  writer.write(out);
  out.commit();
  return writer.count();
}

}  // namespace accrue::data
