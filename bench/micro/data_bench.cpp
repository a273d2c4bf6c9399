// Tokens per second of the data path alone: reading micro-batches of 8 samples with a context of
// 128, which are small on purpose (a longer context costs less a token). Files come from the page
// cache, as they do after the first epoch of data that fits in memory.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include "accrue/data/source.h"
#include "batch/sampler.h"
#include "batch/schedule.h"
#include "data/loader.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t context = 128;
constexpr std::int64_t micro_batch = 8;
constexpr std::int64_t corpus_bytes = 64 << 20;

/// The same bytes as one text file, as thousands of small ones, as 16-bit tokens, and as JSON lines
/// of 100 bytes of text each.
class Corpus {
 public:
  Corpus() {
    std::string name = (fs::temp_directory_path() / "accrue_bench_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = name;
    fs::create_directories(root_ / "many");
    std::string content(corpus_bytes, '\0');
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>('a' + i % 23);
    write("one.txt", content);
    write("tokens.bin", content);
    write("lines.jsonl", lines_of(content));
    constexpr std::size_t small_file_bytes = 16 << 10;
    for (std::size_t offset = 0; offset < content.size(); offset += small_file_bytes)
      write("many/" + std::to_string(100'000 + offset), content.substr(offset, small_file_bytes));
  }
  ~Corpus() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;

  /// Of one file; 0 of a pattern.
  std::int64_t bytes(const std::string& glob) const {
    std::error_code ignored;
    const auto size = fs::file_size(root_ / glob, ignored);
    return ignored ? 0 : static_cast<std::int64_t>(size);
  }

  std::shared_ptr<const Source> open(const std::string& glob) const {
    return open_source({.globs = {(root_ / glob).string()}, .context = context, .vocab = 1 << 16},
                       "bench");
  }

 private:
  static std::string lines_of(const std::string& content) {
    constexpr std::size_t line_bytes = 100;
    std::string lines;
    for (std::size_t offset = 0; offset + line_bytes <= content.size(); offset += line_bytes)
      lines += R"({"text": ")" + content.substr(offset, line_bytes) + "\"}\n";
    return lines;
  }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(root_ / name, std::ios::binary) << content;
  }

  fs::path root_;
};

const Corpus& corpus() {
  static const Corpus shared;
  return shared;
}

void count_tokens(benchmark::State& state, std::int64_t tokens) {
  state.counters["tokens_per_second"] =
      benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsRate);
}

batch::Range advance(batch::Range& position) {
  position = {position.end, position.end + micro_batch};
  return position;
}

void fetch(benchmark::State& state, const char* glob, batch::Order order) {
  const auto source = corpus().open(glob);
  const Loader loader(source, batch::Sampler(source->size(), order, 1337));
  batch::Range position;
  std::int64_t tokens = 0;
  for (auto _ : state) tokens += loader.fetch(advance(position)).tokens;
  count_tokens(state, tokens);
}

void prefetched(benchmark::State& state, const char* glob, batch::Order order) {
  const auto source = corpus().open(glob);
  Loader loader(source, batch::Sampler(source->size(), order, 1337));
  batch::Range position;
  for (int i = 0; i < 4; ++i) loader.prefetch({advance(position)});
  std::int64_t tokens = 0;
  for (auto _ : state) {
    loader.prefetch({advance(position)});
    tokens += loader.next().tokens;
  }
  count_tokens(state, tokens);
}

/// Bytes are those of the files: of token files a part is read, of JSON lines all.
void open_and_fingerprint(benchmark::State& state, const char* glob) {
  for (auto _ : state) benchmark::DoNotOptimize(corpus().open(glob)->fingerprint());
  state.SetBytesProcessed(state.iterations() * corpus().bytes(glob));
}

BENCHMARK_CAPTURE(fetch, one_text_sequential, "one.txt", batch::Order::sequential)->UseRealTime();
BENCHMARK_CAPTURE(fetch, one_text_shuffled, "one.txt", batch::Order::shuffle)->UseRealTime();
BENCHMARK_CAPTURE(fetch, small_texts_sequential, "many/*", batch::Order::sequential)->UseRealTime();
BENCHMARK_CAPTURE(fetch, small_texts_shuffled, "many/*", batch::Order::shuffle)->UseRealTime();
BENCHMARK_CAPTURE(fetch, tokens_sequential, "tokens.bin", batch::Order::sequential)->UseRealTime();
BENCHMARK_CAPTURE(fetch, tokens_shuffled, "tokens.bin", batch::Order::shuffle)->UseRealTime();
BENCHMARK_CAPTURE(fetch, json_lines_shuffled, "lines.jsonl", batch::Order::shuffle)->UseRealTime();
BENCHMARK_CAPTURE(prefetched, small_texts_shuffled, "many/*", batch::Order::shuffle)->UseRealTime();
BENCHMARK_CAPTURE(prefetched, tokens_shuffled, "tokens.bin", batch::Order::shuffle)->UseRealTime();
BENCHMARK_CAPTURE(open_and_fingerprint, small_texts, "many/*")->UseRealTime();
BENCHMARK_CAPTURE(open_and_fingerprint, tokens, "tokens.bin")->UseRealTime();
BENCHMARK_CAPTURE(open_and_fingerprint, json_lines, "lines.jsonl")->UseRealTime();

}  // namespace
}  // namespace accrue::data
