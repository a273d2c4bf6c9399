#pragma once

#include <cstdint>
#include <span>

namespace accrue::fuzz {

using Input = std::span<const std::uint8_t>;

/// Each takes any bytes. accrue::Error is a valid answer; every other exception, a failed `expect`,
/// a report of a sanitizer, more than 10 s or 2 GiB is a finding.
void fuzz_config(Input input);
void fuzz_overrides(Input input);
void fuzz_gpt2_config(Input input);
void fuzz_llama_config(Input input);
void fuzz_bert_config(Input input);
void fuzz_generation_config(Input input);
void fuzz_adapter_config(Input input);
void fuzz_jsonl(Input input);
void fuzz_tokenizer(Input input);
void fuzz_tokenizer_folder(Input input);
void fuzz_pattern(Input input);
void fuzz_chat_template(Input input);
void fuzz_chat_lines(Input input);
void fuzz_tokens(Input input);
void fuzz_images(Input input);
void fuzz_idx(Input input);
void fuzz_cifar(Input input);
void fuzz_safetensors(Input input);
void fuzz_safetensors_index(Input input);
void fuzz_gguf(Input input);
void fuzz_gguf_tokenizer(Input input);
void fuzz_state(Input input);
void fuzz_manifest(Input input);
void fuzz_reference(Input input);
void fuzz_run_record(Input input);
void fuzz_metrics(Input input);
void fuzz_run_json(Input input);
void fuzz_block_codec(Input input);
void fuzz_parcels(Input input);
void fuzz_sealed_text(Input input);
void fuzz_etcd_answer(Input input);
void fuzz_members(Input input);
void fuzz_ranges(Input input);
void fuzz_rank_place(Input input);
void fuzz_facts(Input input);
void fuzz_rank_events(Input input);
void fuzz_rank_middle(Input input);
void fuzz_status_row(Input input);
void fuzz_holdings(Input input);
void fuzz_leases(Input input);

/// Ends the program if the condition does not hold, with `what` on stderr.
void expect(bool holds, const char* what);

}  // namespace accrue::fuzz
