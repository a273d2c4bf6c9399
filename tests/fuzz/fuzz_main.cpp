// The entry points that libFuzzer calls.   accrue_fuzz --target=NAME [libFuzzer's flags] CORPUS...
// --planted=FAULT: with a deliberate fault in each run, which must be found (scripts/fuzz.sh).
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "accrue/core/error.h"
#include "fuzz_targets.h"

namespace accrue::fuzz {
namespace {

struct Target {
  std::string_view name;
  void (*run)(Input);
};

constexpr std::array targets{Target{"config", fuzz_config},
                             Target{"overrides", fuzz_overrides},
                             Target{"gpt2_config", fuzz_gpt2_config},
                             Target{"llama_config", fuzz_llama_config},
                             Target{"bert_config", fuzz_bert_config},
                             Target{"generation_config", fuzz_generation_config},
                             Target{"adapter_config", fuzz_adapter_config},
                             Target{"jsonl", fuzz_jsonl},
                             Target{"tokenizer", fuzz_tokenizer},
                             Target{"tokenizer_folder", fuzz_tokenizer_folder},
                             Target{"pattern", fuzz_pattern},
                             Target{"chat_template", fuzz_chat_template},
                             Target{"chat_lines", fuzz_chat_lines},
                             Target{"tokens", fuzz_tokens},
                             Target{"images", fuzz_images},
                             Target{"idx", fuzz_idx},
                             Target{"cifar", fuzz_cifar},
                             Target{"safetensors", fuzz_safetensors},
                             Target{"safetensors_index", fuzz_safetensors_index},
                             Target{"gguf", fuzz_gguf},
                             Target{"gguf_tokenizer", fuzz_gguf_tokenizer},
                             Target{"state", fuzz_state},
                             Target{"manifest", fuzz_manifest},
                             Target{"reference", fuzz_reference},
                             Target{"run_record", fuzz_run_record},
                             Target{"metrics", fuzz_metrics},
                             Target{"run_json", fuzz_run_json},
                             Target{"block_codec", fuzz_block_codec},
                             Target{"parcels", fuzz_parcels},
                             Target{"sealed_text", fuzz_sealed_text},
                             Target{"etcd_answer", fuzz_etcd_answer},
                             Target{"members", fuzz_members},
                             Target{"ranges", fuzz_ranges},
                             Target{"rank_place", fuzz_rank_place},
                             Target{"facts", fuzz_facts},
                             Target{"rank_events", fuzz_rank_events},
                             Target{"rank_middle", fuzz_rank_middle},
                             Target{"status_row", fuzz_status_row},
                             Target{"holdings", fuzz_holdings},
                             Target{"leases", fuzz_leases}};

void run_plainly(const Target& target, Input input) { target.run(input); }

/// kThere: less than the first read of any target, since images are then read by libraries without
/// sanitizers. kBeyond: more than the largest unit that a target reads.
constexpr std::size_t kThere = 4, kBeyond = 64;

/// Gives the target more bytes than there are, so that its own code reads out of bounds.
void read_beyond(const Target& target, Input input) {
  const Input there = input.first(std::min(input.size(), kThere));
  const auto copy = std::make_unique<std::uint8_t[]>(there.size());
  std::copy(there.begin(), there.end(), copy.get());
  target.run({copy.get(), input.size() + kBeyond});
}

void overflow(const Target&, Input) {
  volatile int largest = std::numeric_limits<int>::max();
  largest = largest + 1;
}

void throw_another(const Target&, Input) { throw std::logic_error("a planted exception"); }

void fail_expectation(const Target&, Input) { expect(false, "a planted expectation"); }

struct Way {
  std::string_view name;
  void (*run)(const Target&, Input);
};

constexpr std::array ways{Way{"", run_plainly}, Way{"read", read_beyond}, Way{"overflow", overflow},
                          Way{"exception", throw_another}, Way{"expectation", fail_expectation}};

/// libFuzzer passes only the input to its entry point.
const Target* chosen = nullptr;
const Way* chosen_way = ways.begin();

void list_targets_and_exit() {
  for (const Target& target : targets)
    std::printf("%.*s\n", static_cast<int>(target.name.size()), target.name.data());
  std::exit(0);
}

template <typename Named>
const typename Named::value_type* find_named(const Named& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Named::value_type::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "expected: %s\n", what);
  std::abort();
}

}  // namespace accrue::fuzz

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  using namespace accrue::fuzz;
  constexpr std::string_view flag = "--target=", planted_flag = "--planted=";
  for (int i = 1; i < *count; ++i) {
    const std::string_view word = (*words)[i];
    if (word == "--list") list_targets_and_exit();
    if (word.starts_with(flag)) chosen = find_named(targets, word.substr(flag.size()));
    if (word.starts_with(planted_flag))
      chosen_way = find_named(ways, word.substr(planted_flag.size()));
  }
  if (chosen != nullptr && chosen_way != nullptr) return 0;
  std::fputs(
      "error: accrue_fuzz: expected --target= and a name of --list, and of --planted= read, "
      "overflow, exception or expectation, received another; try --list\n",
      stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    accrue::fuzz::chosen_way->run(*accrue::fuzz::chosen, {data, size});
  } catch (const accrue::Error&) {
    // It was refused with a message.
  }
  return 0;
}
