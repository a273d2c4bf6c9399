#include "models/generation/decoding.h"

#include <random>

#include "models/support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accrue::testing::tolerance;
using accrue::testing::within;
using namespace models::testing;
using TokenIds = std::vector<std::int64_t>;

constexpr std::int64_t decoded_context = 40;

/// Models of all families, with contexts of several windows.
std::vector<std::unique_ptr<LanguageModel>> models_in(Compute compute) {
  Gpt2Options gpt2 = small(compute);
  gpt2.context = decoded_context;
  LlamaOptions plain = small_llama(compute), of_all = small_llama_of_all(compute);
  plain.context = of_all.context = decoded_context;
  LlamaOptions yarn = plain;
  yarn.variant.window = 7;  // of all layers
  yarn.variant.rotary = {
      .base = 500, .scaling = RotaryScaling::yarn, .factor = 4, .original_context = 8};
  std::vector<std::unique_ptr<LanguageModel>> models;
  models.push_back(std::make_unique<Gpt2>(gpt2));
  for (const LlamaOptions& options : {plain, of_all, yarn})
    models.push_back(std::make_unique<Llama>(options));
  for (const auto& model : models) perturb(*model);
  return models;
}

at::ScalarType products_of(Compute compute) {
  return compute == Compute::fp64   ? at::kDouble
         : compute == Compute::bf16 ? at::kBFloat16
                                    : at::kFloat;
}

TokenIds random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  TokenIds tokens(count);
  for (std::int64_t& token : tokens) token = random() % 31;
  return tokens;
}

at::Tensor as_row(std::span<const std::int64_t> tokens) {
  return at::tensor(c10::ArrayRef<std::int64_t>(tokens.data(), tokens.size())).unsqueeze(0);
}

at::Tensor whole_logits(LanguageModel& model, std::span<const std::int64_t> tokens) {
  return model.next_token_logits(as_row(tokens)).flatten();
}

TEST(Decoding, OfAnyPartsGivesTheLogitsOfTheWhole) {
  std::mt19937 random(8);
  for (const Compute compute : {Compute::fp64, Compute::fp32, Compute::bf16})
    for (const auto& model : models_in(compute))
      for (int turn = 0; turn < 6; ++turn) {
        SCOPED_TRACE(std::string(to_string(compute)) + " " + model->kind());
        const TokenIds tokens = random_tokens(decoded_context, random());
        DecodingCache cache = model->make_decoding_cache();
        for (std::int64_t done = 0; done < decoded_context;) {
          const std::int64_t left = decoded_context - done;
          const std::int64_t most = turn == 0 || random() % 2 == 0 ? 1 : left;
          const std::int64_t count = 1 + static_cast<std::int64_t>(random()) % most;
          const at::Tensor logits =
              model->decode(as_row(std::span(tokens).subspan(done, count)), cache);
          done += count;
          ASSERT_EQ(cache.tokens(), done);
          EXPECT_TRUE(within(logits, whole_logits(*model, std::span(tokens).first(done)),
                             tolerance(products_of(compute)).bound(small_terms)));
        }
      }
}

TEST(Decoding, WithAnotherTokenDiffers) {
  for (const auto& model : models_in(Compute::fp64)) {
    TokenIds tokens = random_tokens(12, 3);
    DecodingCache cache = model->make_decoding_cache();
    model->decode(as_row(std::span(tokens).first(11)), cache);
    const at::Tensor logits = model->decode(as_row(std::span(tokens).last(1)), cache);
    tokens[9] = (tokens[9] + 1) % 31;
    EXPECT_FALSE(within(logits, whole_logits(*model, tokens), 1e-9));
  }
}

TEST(Decoding, GoesOnBehindWhatTextsHaveInCommon) {
  std::mt19937 random(2);
  for (const auto& model : models_in(Compute::fp64)) {
    Decoding decoding(*model);
    TokenIds tokens = random_tokens(5, 1);
    for (int turn = 0; turn < 40; ++turn) {
      SCOPED_TRACE(::testing::Message() << model->kind() << ", turn " << turn);
      // Sometimes the text is cut and continued differently, sometimes it exceeds the context.
      if (random() % 4 == 0) tokens.resize(1 + random() % tokens.size());
      const TokenIds more = random_tokens(random() % 9, random());
      tokens.insert(tokens.end(), more.begin(), more.end());
      const auto seen = std::span(tokens).last(
          std::min(tokens.size(), static_cast<std::size_t>(decoded_context)));
      EXPECT_TRUE(within(decoding.next_logits(tokens), whole_logits(*model, seen), 1e-12));
    }
  }
}

TEST(Decoding, RefusesWhatTheContextHasNoRoomFor) {
  using ::testing::HasSubstr;
  for (const auto& model : models_in(Compute::fp32)) {
    DecodingCache cache = model->make_decoding_cache();
    const auto refusal = [&](const at::Tensor& ids) {
      return message_of([&] { model->decode(ids, cache); });
    };
    const at::TensorOptions ids = at::TensorOptions().dtype(at::kLong);
    EXPECT_THAT(refusal(at::ones({1, 41}, ids)), HasSubstr("T from 1 to the 40"));
    EXPECT_THAT(refusal(at::ones({1, 0}, ids)), HasSubstr("T from 1"));
    EXPECT_THAT(refusal(at::ones({2, 3}, ids)), HasSubstr("[1, T]"));
    model->decode(at::ones({1, 38}, ids), cache);
    EXPECT_THAT(refusal(at::ones({1, 3}, ids)), HasSubstr("T from 1 to the 2"));
    EXPECT_EQ(cache.tokens(), 38) << "nothing was read";
  }
}

}  // namespace
}  // namespace accrue::models
