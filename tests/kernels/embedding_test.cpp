#include "accrue/kernels/embedding.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "kernels/gradients.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace embedding_test {

using testing::close;
using ::testing::HasSubstr;
using testing::leaf;
using testing::open_slot;

constexpr std::int64_t vocabulary = 40, positions = 12, channels = 150;

at::Tensor ids_of(std::int64_t batch, std::int64_t length) {
  at::manual_seed(7);
  // Half of the vocabulary, so that some rows repeat and others never occur.
  return at::randint(vocabulary / 2, {batch, length}, at::kLong);
}

at::Tensor aten_embed(const at::Tensor& ids, const at::Tensor& tokens, const at::Tensor& table) {
  return at::embedding(tokens, ids) + table.narrow(0, 0, ids.size(1));
}

class Embedding : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType dtype() const { return GetParam(); }
  at::Tensor tokens(std::uint64_t seed = 1) const {
    return leaf({vocabulary, channels}, dtype(), seed);
  }
  at::Tensor table(std::uint64_t seed = 2) const {
    return leaf({positions, channels}, dtype(), seed);
  }
  at::Tensor upstream(const at::Tensor& ids) const {
    return leaf({ids.size(0), ids.size(1), channels}, dtype(), 3).detach();
  }
};
INSTANTIATE_TEST_SUITE_P(All, Embedding, ::testing::Values(at::kFloat, at::kDouble),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(Embedding, MatchesATen) {
  for (const auto& [batch, length] : {std::pair{1, 1}, {5, 9}, {3, 12}}) {
    const at::Tensor ids = ids_of(batch, length), grad = upstream(ids);
    const at::Tensor t = tokens(), p = table(), rt = tokens(), rp = table();
    const at::Tensor x = embed_tokens(ids, t, p), expected = aten_embed(ids, rt, rp);
    EXPECT_TRUE(at::equal(x, expected));
    x.backward(grad);
    expected.backward(grad);
    EXPECT_TRUE(close(t.grad(), rt.grad(), dtype(), ids.numel()));
    EXPECT_TRUE(close(p.grad(), rp.grad(), dtype(), batch));
    EXPECT_FALSE(close(t.grad(), rt.grad() * 1.001, dtype(), ids.numel()));
  }
}

TEST_P(Embedding, TakesTheRowsOfTokensAloneWithoutPositions) {
  const std::vector<SampleSpan> spans{{7, 0, 0, 5}, {3, 0, 5, 17}, {9, 1, 4, 6}};
  for (const bool packed : {false, true}) {
    const at::Tensor ids = ids_of(2, 20), grad = upstream(ids);
    const at::Tensor t = tokens(), rt = tokens();
    const at::Tensor x = embed_tokens(ids, t, {}, packed ? spans : std::vector<SampleSpan>{});
    at::Tensor expected = at::embedding(rt, ids);
    if (packed) {
      at::Tensor covered = at::zeros({2, 20, 1}, dtype());
      for (const SampleSpan& span : spans)
        covered[span.row].slice(0, span.begin, span.end).fill_(1);
      expected = expected * covered;
    }
    EXPECT_TRUE(at::equal(x, expected));
    const auto slot = open_slot(t);
    x.backward(grad);
    expected.backward(grad);
    EXPECT_TRUE(close(slot->main, rt.grad(), dtype(), ids.numel()));
    EXPECT_FALSE(close(slot->main, rt.grad() * 1.001, dtype(), ids.numel()));
    EXPECT_EQ(slot->contributions, 1);
  }
}

TEST_P(Embedding, AddsUpInSlots) {
  const at::Tensor ids = ids_of(6, 9), grad = upstream(ids);
  const at::Tensor t = tokens(), p = table(), rt = tokens(), rp = table();
  const auto token_slot = open_slot(t), position_slot = open_slot(p);
  for (const std::int64_t begin : {0, 2}) {
    const std::int64_t rows = begin == 0 ? 2 : 4;
    embed_tokens(ids.narrow(0, begin, rows), t, p).backward(grad.narrow(0, begin, rows));
  }
  aten_embed(ids, rt, rp).backward(grad);
  EXPECT_TRUE(close(token_slot->main, rt.grad(), dtype(), ids.numel()));
  EXPECT_TRUE(close(position_slot->main, rp.grad(), dtype(), 6));
  EXPECT_EQ(token_slot->contributions, 2);
  EXPECT_EQ(position_slot->contributions, 2);
  EXPECT_FALSE(t.grad().defined() || p.grad().defined());
}

TEST_P(Embedding, TouchesOnlyTheRowsThatOccur) {
  const at::Tensor ids = at::tensor({3, 3, 8}, at::kLong).view({1, 3}), t = tokens(), p = table();
  const auto slot = open_slot(t);
  slot->main.fill_(5);
  slot->fresh = false;
  embed_tokens(ids, t, p).sum().backward();
  at::Tensor expected = at::full({vocabulary, channels}, 5, dtype());
  expected[3] += 2;
  expected[8] += 1;
  EXPECT_TRUE(at::equal(slot->main, expected));
}

TEST_P(Embedding, PositionsRestartInEachSpan) {
  // Rows are longer than the position table, samples are not.
  const std::vector<SampleSpan> spans{{7, 0, 0, 5}, {3, 0, 5, 17}, {9, 1, 4, 6}};
  const at::Tensor ids = ids_of(2, 20), grad = upstream(ids);
  const at::Tensor t = tokens(), p = table(), rt = tokens(), rp = table();
  const at::Tensor x = embed_tokens(ids, t, p, spans);
  at::Tensor expected = at::zeros_like(x);
  for (const SampleSpan& span : spans)
    expected[span.row]
        .slice(0, span.begin, span.end)
        .copy_(aten_embed(ids[span.row].slice(0, span.begin, span.end).unsqueeze(0), rt, rp)[0]);
  EXPECT_TRUE(at::equal(x, expected));
  const auto slot = open_slot(p);
  x.backward(grad);
  expected.backward(grad);
  EXPECT_TRUE(close(t.grad(), rt.grad(), dtype(), 19));
  EXPECT_TRUE(close(slot->main, rp.grad(), dtype(), 3));

  const at::Tensor one_span = embed_tokens(ids.slice(1, 0, 12), t, p);
  EXPECT_FALSE(at::equal(one_span[0][5], x[0][5]));
  EXPECT_TRUE(at::equal(one_span[0][4], x[0][4]));
}

TEST_P(Embedding, SharesATiedTableWithTheHead) {
  const at::Tensor ids = ids_of(2, 5), targets = ids_of(2, 5);
  const at::Tensor t = leaf({vocabulary, channels}, dtype(), 1, 0.1), p = table();
  const at::Tensor rt = t.detach().clone().requires_grad_(true), rp = table();
  const auto slot = open_slot(t);
  PreparedWeight copy;
  for (int micro = 0; micro < 2; ++micro) {
    linear_cross_entropy(embed_tokens(ids, t, p), t, targets, copy).sum.backward();
    const at::Tensor logits = at::matmul(aten_embed(ids, rt, rp), rt.t());
    at::cross_entropy_loss(logits.view({-1, vocabulary}), targets.view({-1}), {},
                           at::Reduction::Sum)
        .backward();
  }
  EXPECT_TRUE(close(slot->main, rt.grad(), dtype(), 4 * channels));
  EXPECT_FALSE(close(slot->main, rt.grad() / 2, dtype(), 4 * channels));
}

TEST_P(Embedding, GivesTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor ids = ids_of(40, 12), grad = upstream(ids);
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> token_grads, position_grads;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    const at::Tensor t = tokens(), p = table();
    embed_tokens(ids, t, p).backward(grad);
    token_grads.push_back(t.grad());
    position_grads.push_back(p.grad());
  }
  at::set_num_threads(threads);
  for (std::size_t i = 1; i < token_grads.size(); ++i) {
    EXPECT_TRUE(at::equal(token_grads[i], token_grads[0]));
    EXPECT_TRUE(at::equal(position_grads[i], position_grads[0]));
  }
}

TEST_P(Embedding, TakesFrozenTablesAndEmptyBatches) {
  const at::Tensor t = tokens(), p = table();
  t.requires_grad_(false);
  embed_tokens(ids_of(2, 3), t, p).sum().backward();
  EXPECT_FALSE(t.grad().defined());
  EXPECT_TRUE(p.grad().defined());
  EXPECT_EQ(embed_tokens(at::empty({0, 3}, at::kLong), t, p).numel(), 0);
}

TEST_P(Embedding, ChecksItsArguments) {
  const auto message = [&](const at::Tensor& ids) {
    try {
      embed_tokens(ids, tokens(), table());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(ids_of(1, 2)), "no error");
  EXPECT_THAT(message(at::full({1, 2}, vocabulary, at::kLong)), HasSubstr("token ids in [0, 40)"));
  EXPECT_THAT(message(at::full({1, 2}, -1, at::kLong)), HasSubstr("-1 at position 0"));
  EXPECT_THAT(message(ids_of(1, positions + 1)), HasSubstr("at most 12 positions"));
  EXPECT_THAT(message(at::zeros({1, 2})), HasSubstr("int64 ids"));
  EXPECT_THROW(embed_tokens(ids_of(1, 20), tokens(), table(), {{1, 0, 0, 13}}), Error);
  EXPECT_THROW(embed_tokens(ids_of(1, 20), tokens(), table(), {{1, 0, 15, 21}}), Error);
}

}  // namespace embedding_test
}  // namespace accrue::kernels
