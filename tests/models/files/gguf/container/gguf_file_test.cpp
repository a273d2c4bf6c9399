// GGUF files themselves: written data can be read, and damage is refused.
#include "models/files/gguf/container/gguf_file.h"

#include <fstream>
#include <random>

#include "core/atomic_file.h"
#include "models/files/gguf/container/gguf_writer.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using ::testing::HasSubstr;

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string text(std::string_view value) {
  return bytes_of(std::uint64_t{value.size()}) + std::string(value);
}

GgufOutput output(const std::string& name, GgufType type, const at::Tensor& values) {
  return {
      .name = name, .type = type, .shape = values.sizes().vec(), .values = [=] { return values; }};
}

class GgufFiles : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "file.gguf"; }

  /// A file with keys and tensors of every kind that can be written.
  std::string write() const {
    GgufKeyWriter keys;
    keys.add("count", std::uint32_t{4'000'000'000});
    keys.add("number", 1e-5F);
    keys.add("flag", true);
    keys.add("text", std::string("a text"));
    keys.add("texts", std::vector<std::string>{"a", "", "ccc"});
    keys.add("wholes", std::vector<std::int32_t>{-1, 7});
    keys.add("numbers", std::vector<float>{0.1F, -2});
    write_gguf(path(), keys,
               {output("f32", GgufType::f32, values_), output("f16", GgufType::f16, values_),
                output("bf16", GgufType::bf16, values_), output("q8_0", GgufType::q8_0, values_),
                output("scalar", GgufType::f32, at::scalar_tensor(3.5))});
    return read_file(path());
  }

  void put(const std::string& content) const { std::ofstream(path(), std::ios::binary) << content; }

  std::string refusal(const std::string& content) const {
    put(content);
    const std::string message = message_of([&] { GgufFile{path()}; });
    EXPECT_THAT(message, HasSubstr("file.gguf"));
    return message;
  }

  /// The refusal of a file with one key, whose type and value are `value`.
  std::string refusal_of_value(const std::string& value) const {
    return refusal(head(0, 1) + text("key") + value + std::string(64, '\0'));
  }

  /// The refusal of a file with one tensor and 64 bytes for it.
  std::string refusal_of_tensor(const std::string& tensor) const {
    return refusal(head(1, 0) + tensor + std::string(128, '\0'));
  }

  static std::string head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    return "GGUF" + bytes_of(version) + bytes_of(tensors) + bytes_of(keys);
  }

  static std::string tensor(const std::vector<std::uint64_t>& sizes, std::uint32_t type = 0,
                            std::uint64_t offset = 0, std::string_view name = "x") {
    std::string bytes = text(name) + bytes_of(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) bytes += bytes_of(size);
    return bytes + bytes_of(type) + bytes_of(offset);
  }

  TemporaryFolder folder_;
  at::Tensor values_ = at::arange(128).reshape({2, 64}).to(at::kFloat) / 4 - 16;
};

TEST_F(GgufFiles, WhatIsWrittenIsRead) {
  write();
  const GgufFile file(path());
  EXPECT_EQ(file.whole("count"), 4'000'000'000);
  EXPECT_EQ(file.number("number"), 1e-5) << "the decimal number that became a float";
  EXPECT_TRUE(file.flag("flag"));
  EXPECT_EQ(file.text("text"), "a text");
  EXPECT_EQ(file.texts("texts"), (std::vector<std::string>{"a", "", "ccc"}));
  EXPECT_EQ(file.wholes("wholes"), (std::vector<std::int64_t>{-1, 7}));
  EXPECT_EQ(file.numbers("numbers"), (std::vector<double>{0.1, -2}));
  EXPECT_EQ(file.whole_or("none", 5), 5);
  ASSERT_EQ(file.tensors().size(), 5U);
  for (const char* name : {"f32", "f16", "bf16"}) {
    const at::Tensor read = file.stored(*file.find(name)).read();
    EXPECT_TRUE(at::equal(read.to(at::kFloat), values_)) << name;
  }
  EXPECT_EQ(file.stored(*file.find("scalar")).read().item<float>(), 3.5F);
  const at::Tensor q8_0 = file.stored(*file.find("q8_0")).read();
  EXPECT_EQ(q8_0.scalar_type(), at::kFloat);
  EXPECT_LE((q8_0 - values_).abs().max().item<float>(), 16.0F / 127 / 2 * 1.01F);
  EXPECT_FALSE(at::equal(q8_0, values_));
}

TEST_F(GgufFiles, BlocksAreHandedOutAsTheyAreStored) {
  write();
  const GgufFile file(path());
  const GgufTensor& tensor = *file.find("q8_0");
  ASSERT_EQ(tensor.bytes, 4 * 34);
  std::string whole(static_cast<std::size_t>(tensor.bytes), '\0'), end(34, '\0');
  file.read_bytes(tensor, 0, tensor.bytes, whole.data());
  file.read_bytes(tensor, 3 * 34, 34, end.data());
  std::string packed(whole.size(), '\0');
  kernels::pack_q8_0(values_.const_data_ptr<float>(), 4, packed.data());
  EXPECT_EQ(whole, packed);
  EXPECT_EQ(end, packed.substr(std::size_t{3} * 34));
}

TEST_F(GgufFiles, AKeyOfAnotherTypeIsNamed) {
  write();
  const GgufFile file(path());
  EXPECT_THAT(message_of([&] { file.whole("text"); }),
              HasSubstr("\"text\": expected a whole number"));
  EXPECT_THAT(message_of([&] { file.text("none"); }), HasSubstr("no such key"));
}

TEST_F(GgufFiles, AFileCutAnywhereIsRefused) {
  const std::string whole = write();
  for (std::size_t length = 0; length < whole.size(); length += length < 700 ? 1 : 13) {
    // The padding after the last tensor may be missing.
    if (length + 28 >= whole.size()) break;
    refusal(whole.substr(0, length));
  }
}

TEST_F(GgufFiles, AFlippedBitIsReadOrRefused) {
  const std::string whole = write();
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    for (int flips = 1 + i % 3; flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << (random() % 8));
    put(damaged);
    try {
      const GgufFile file(path());
      for (const GgufTensor& tensor : file.tensors()) file.stored(tensor).read();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << error.what();
    }
  }
}

TEST_F(GgufFiles, AbsurdSizesAreRefused) {
  constexpr std::uint64_t huge = std::uint64_t{1} << 62;
  EXPECT_THAT(refusal(head(huge, 0)), HasSubstr("its tensors"));
  EXPECT_THAT(refusal(head(0, ~std::uint64_t{0})), HasSubstr("its keys"));
  EXPECT_THAT(refusal(head(0, 1) + bytes_of(huge) + std::string(32, 'x')),
              HasSubstr("a key's name"));
  EXPECT_THAT(refusal_of_value(bytes_of(8U) + bytes_of(huge)), HasSubstr("key \"key\""));
  EXPECT_THAT(refusal_of_value(bytes_of(9U) + bytes_of(5U) + bytes_of(huge)),
              HasSubstr("key \"key\""));
  EXPECT_THAT(refusal_of_tensor(tensor({huge, 2})), HasSubstr("cut short"));
  EXPECT_THAT(refusal_of_tensor(tensor({~std::uint64_t{0}})), HasSubstr("below 2^63"));
  EXPECT_THAT(refusal_of_tensor(tensor({1U << 31, 1U << 31, 1U << 31})), HasSubstr("tensor \"x\""));
  EXPECT_THAT(refusal_of_tensor(tensor({8}, 0, huge)), HasSubstr("tensor \"x\""));
  EXPECT_THAT(refusal_of_tensor(tensor({1, 1, 1, 1, 1})), HasSubstr("4 dimensions"));
  EXPECT_THAT(refusal_of_tensor(tensor({0, huge})), HasSubstr("tensor \"x\""));
  EXPECT_THAT(refusal_of_tensor(tensor({huge, huge, 0})), HasSubstr("tensor \"x\""));
}

TEST_F(GgufFiles, WhatContradictsItselfIsRefused) {
  EXPECT_THAT(refusal("GGML" + head(0, 0).substr(4)), HasSubstr("begins with GGUF"));
  EXPECT_THAT(refusal(head(0, 0, 1)), HasSubstr("version 2 or 3"));
  EXPECT_THAT(refusal(head(0, 0, 0x03000000)), HasSubstr("little-endian"));
  const std::string key = text("k") + bytes_of(7U) + "\1";
  EXPECT_THAT(refusal(head(0, 2) + key + key), HasSubstr("each key once"));
  EXPECT_THAT(refusal_of_value(bytes_of(7U) + "\2"), HasSubstr("0 and 1"));
  EXPECT_THAT(refusal_of_value(bytes_of(13U)), HasSubstr("type 13"));
  EXPECT_THAT(refusal_of_value(bytes_of(9U) + bytes_of(9U) + bytes_of(std::uint64_t{1})),
              HasSubstr("no array in an array"));
  EXPECT_THAT(refusal_of_tensor(tensor({8}, 2)), HasSubstr("ggml's type 2"));
  EXPECT_THAT(refusal_of_tensor(tensor({8}, 8)), HasSubstr("blocks of 32"));
  EXPECT_THAT(refusal_of_tensor(tensor({8}, 0, 3)), HasSubstr("multiple of 32"));
  const std::string filling(256, '\0');
  EXPECT_THAT(refusal(head(2, 0) + tensor({8}) + tensor({8}) + filling),
              HasSubstr("each tensor once"));
  EXPECT_THAT(refusal(head(2, 0) + tensor({16}) + tensor({8}, 0, 32, "y") + filling),
              HasSubstr("bytes of its own"));
  const std::string alignment =
      text("general.alignment") + bytes_of(4U) + bytes_of(std::uint32_t{24});
  EXPECT_THAT(refusal(head(0, 1) + alignment), HasSubstr("a power of two"));
}

TEST_F(GgufFiles, ValuesThatDoNotFitAreNotWritten) {
  const auto refused = [&](GgufType type, double value, std::int64_t columns = 32) {
    const std::string message = message_of([&] {
      write_gguf(path(), {}, {output("w", type, at::full({2, columns}, value, at::kFloat))});
    });
    EXPECT_THAT(message, HasSubstr("tensor \"w\""));
    EXPECT_FALSE(std::filesystem::exists(path()));
    return message;
  };
  EXPECT_THAT(refused(GgufType::f16, 70'000), HasSubstr("65504"));
  EXPECT_THAT(refused(GgufType::f32, NAN), HasSubstr("nan"));
  EXPECT_THAT(refused(GgufType::q8_0, 1e30), HasSubstr("Q8_0"));
  EXPECT_THAT(refused(GgufType::q8_0, 1, 33), HasSubstr("multiple of 32"));
}

}  // namespace
}  // namespace accrue::models
