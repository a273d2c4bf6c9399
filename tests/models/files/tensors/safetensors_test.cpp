#include "accrue/models/safetensors.h"

#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "core/atomic_file.h"
#include "core/checksum.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string with_length(std::uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + rest;
}

std::string file_of(const std::string& header, std::size_t data_bytes = 0) {
  return with_length(header.size(), header + std::string(data_bytes, '\0'));
}

/// Expects equality of everything except the memory.
void expect_same(const NamedParameters& actual, const NamedParameters& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].name, expected[i].name);
    EXPECT_EQ(actual[i].tensor.scalar_type(), expected[i].tensor.scalar_type());
    EXPECT_TRUE(at::equal(actual[i].tensor, expected[i].tensor)) << actual[i].name;
  }
}

TEST(Safetensors, RoundTripKeepsOrderNamesDtypesShapesAndMetadata) {
  const TemporaryFolder folder;
  NamedParameters tensors;
  for (const auto dtype : {at::kBool, at::kByte, at::kInt, at::kLong, at::kBFloat16, at::kHalf,
                           at::kDouble, at::kFloat})
    tensors.push_back({std::string("t.") + c10::toString(dtype),
                       at::arange(15, at::TensorOptions().dtype(at::kLong))
                           .remainder(2)
                           .reshape({3, 5})
                           .to(dtype)});
  tensors.push_back({"scalar", at::scalar_tensor(3.5)});
  tensors.push_back({"nothing", at::empty({0, 4})});
  tensors.push_back({"ünï\"codé", at::ones({1})});
  tensors.push_back({"view", at::arange(12).reshape({3, 4}).t()});
  write_safetensors(folder / "a", tensors, {{"format", "pt"}, {"note", "\n"}});
  const TensorFile file = read_safetensors(folder / "a");
  expect_same(file.tensors, tensors);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"note", "\n"}}));
}

TEST(Safetensors, OfTensorsThatAreNotInMemoryIsTheSameFile) {
  const TemporaryFolder folder;
  const NamedParameters tensors{{"narrow", at::arange(6, at::dtype(at::kByte))},
                                {"wide", at::ones({2, 3})},
                                {"s", at::ones({})}};
  std::vector<std::string> read;
  StoredTensors elsewhere = stored(tensors);
  for (StoredTensor& tensor : elsewhere)
    tensor.copy_to = [&read, name = tensor.name, copy = tensor.copy_to](const at::Tensor& target) {
      read.push_back(name);
      copy(target);
    };
  write_safetensors(folder / "a", tensors, {{"format", "pt"}});
  write_stored_safetensors(folder / "b", elsewhere, {{"format", "pt"}});
  EXPECT_EQ(read_file(folder / "b"), read_file(folder / "a"));
  EXPECT_EQ(read, (std::vector<std::string>{"wide", "s", "narrow"}));
}

TEST(Safetensors, AnEmptyFileOfTensorsIsAFile) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {});
  EXPECT_TRUE(read_safetensors(folder / "a").tensors.empty());
}

TEST(Safetensors, ReadsTensorsThatTheHeaderListsInAnotherOrderThanTheData) {
  const TemporaryFolder folder;
  write(folder / "a", file_of(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                              R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}  )") +
                          "\1\2\3");
  const NamedParameters tensors = read_safetensors(folder / "a").tensors;
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(tensors[0].tensor[1].item<int>(), 3);
  EXPECT_EQ(tensors[1].tensor.item<int>(), 1);
}

struct BadFile {
  std::string name, bytes;
  std::vector<std::string> message;  ///< parts of it
};

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + '}';
}

std::string one(const std::string& fields) { return R"({"w":)" + fields + '}'; }

std::vector<BadFile> bad_files() {
  const std::string good = entry("w", "F32", "[2]", "[0,8]");
  const auto braces = [](const std::string& inside) { return '{' + inside + '}'; };
  return {
      {"empty", "", {"at least 8 bytes", "received 0"}},
      {"seven_bytes", "1234567", {"at least 8 bytes", "received 7"}},
      {"length_beyond_the_file", with_length(100, "{}"), {"header of at most 2", "100"}},
      {"length_of_2_to_64", with_length(~std::uint64_t{0}, "{}"), {"18446744073709551615"}},
      {"no_header", with_length(0, ""), {"JSON"}},
      {"not_json", file_of("{'w': 1}"), {"JSON"}},
      {"cut_json", file_of(R"({"w":{"dtype":"F32")"), {"JSON"}},
      {"text_behind_the_json", file_of("{} x"), {"JSON"}},
      {"invalid_utf8", file_of("{\"\xff\":{}}"), {"JSON"}},
      {"array_as_header", file_of("[]"), {"object"}},
      {"number_as_header", file_of("3"), {"object"}},
      {"array_bomb", file_of(std::string(100'000, '[')), {"object"}},
      {"object_bomb",
       file_of([] {
         std::string bomb;
         for (int i = 0; i < 100'000; ++i) bomb += R"({"a":)";
         return bomb;
       }()),
       {"tensor \"a\"", "dtype, shape and data_offsets"}},
      {"shape_bomb", file_of(one(R"({"shape":)" + std::string(100'000, '['))), {"\"w\"", "shape"}},
      {"tensor_is_a_number", file_of(one("1")), {"\"w\"", "object"}},
      {"tensor_is_null", file_of(one("null")), {"\"w\"", "null"}},
      {"no_dtype", file_of(one(R"({"shape":[],"data_offsets":[0,0]})")), {"\"w\"", "no dtype"}},
      {"no_shape", file_of(one(R"({"dtype":"F32","data_offsets":[0,0]})")), {"\"w\"", "no shape"}},
      {"no_offsets", file_of(one(R"({"dtype":"F32","shape":[]})")), {"\"w\"", "no data_offsets"}},
      {"unknown_field", file_of(one(R"({"stride":[1]})")), {"\"w\"", "stride"}},
      {"unknown_dtype",
       file_of(braces(entry("w", "F31", "[2]", "[0,8]")), 8),
       {"\"w\"", "F31", "BF16"}},
      {"dtype_is_a_number", file_of(one(R"({"dtype":32})")), {"\"w\"", "BF16", "32"}},
      {"dtype_is_an_array", file_of(one(R"({"dtype":["F32"]})")), {"\"w\"", "BF16"}},
      {"shape_is_text", file_of(one(R"({"shape":"2"})")), {"\"w\"", "shape", "\"2\""}},
      {"negative_shape",
       file_of(braces(entry("w", "F32", "[-2]", "[0,8]")), 8),
       {"\"w\"", "shape", "-2"}},
      {"broken_shape",
       file_of(braces(entry("w", "F32", "[2.5]", "[0,8]")), 8),
       {"\"w\"", "shape", "2.5"}},
      {"shape_of_2_to_63",
       file_of(braces(entry("w", "U8", "[9223372036854775808]", "[0,8]")), 8),
       {"\"w\"", "9223372036854775808"}},
      {"shape_beyond_64_bits",
       file_of(braces(entry("w", "U8", "[99999999999999999999]", "[0,8]")), 8),
       {"\"w\"", "99999999999999999999"}},
      {"overflowing_shape",
       file_of(braces(entry("w", "F32", "[4294967296,4294967296]", "[0,0]"))),
       {"\"w\"", "2^63"}},
      {"overflow_behind_a_zero",
       file_of(braces(entry("w", "F32", "[0,4294967296,4294967296]", "[0,0]"))),
       {"\"w\"", "2^63"}},
      {"65_dimensions",
       file_of(one(R"({"shape":[1)" +
                   [] {
                     std::string ones;
                     for (int i = 0; i < 64; ++i) ones += ",1";
                     return ones;
                   }() +
                   "]}")),
       {"\"w\"", "at most 64"}},
      {"nested_shape", file_of(one(R"({"shape":[[2]]})")), {"\"w\"", "array"}},
      {"size_is_not_the_shape",
       file_of(braces(entry("w", "F32", "[3]", "[0,8]")), 8),
       {"\"w\"", "12 bytes", "[0, 8]"}},
      {"offsets_backwards",
       file_of(braces(entry("w", "F32", "[2]", "[8,0]")), 8),
       {"\"w\"", "8 bytes", "[8, 0]"}},
      {"one_offset",
       file_of(braces(entry("w", "F32", "[2]", "[8]")), 8),
       {"\"w\"", "two data_offsets"}},
      {"three_offsets",
       file_of(braces(entry("w", "F32", "[2]", "[0,8,8]")), 8),
       {"\"w\"", "two data_offsets"}},
      {"negative_offset",
       file_of(braces(entry("w", "F32", "[2]", "[-8,0]")), 8),
       {"\"w\"", "data_offsets", "-8"}},
      {"overlap",
       file_of(braces(good + ',' + entry("v", "F32", "[2]", "[4,12]")), 12),
       {"\"v\"", "overlaps"}},
      {"same_place",
       file_of(braces(good + ',' + entry("v", "F32", "[2]", "[0,8]")), 8),
       {"overlaps"}},
      {"gap",
       file_of(braces(good + ',' + entry("v", "F32", "[1]", "[12,16]")), 16),
       {"\"v\"", "gap"}},
      {"gap_at_the_start", file_of(braces(entry("w", "F32", "[1]", "[4,8]")), 8), {"\"w\"", "gap"}},
      {"data_cut_short", file_of(braces(good), 7), {"\"w\"", "7 bytes", "cut short"}},
      {"bytes_behind_the_last", file_of(braces(good), 9), {"1 bytes more"}},
      {"bytes_without_tensors", file_of("{}", 3), {"3 bytes more"}},
      {"name_twice",
       file_of(braces(good + ',' + entry("w", "F32", "[2]", "[8,16]")), 16),
       {"\"w\"", "twice"}},
      {"field_twice",
       file_of(one(R"({"dtype":"F32","dtype":"F32"})")),
       {"\"w\"", "dtype", "twice"}},
      {"metadata_twice", file_of(R"({"__metadata__":{},"__metadata__":{}})"), {"twice"}},
      {"metadata_not_text", file_of(R"({"__metadata__":{"a":1}})"), {"text", "\"a\""}},
      {"metadata_nested", file_of(R"({"__metadata__":{"a":{}}})"), {"text", "\"a\""}},
      {"metadata_not_an_object", file_of(R"({"__metadata__":"a"})"), {"object"}},
      {"bool_of_two",
       file_of(braces(entry("w", "BOOL", "[1]", "[0,1]"))) + '\2',
       {"\"w\"", "BOOL"}},
  };
}

TEST(Safetensors, RefusesEveryDamageNamingFileAndTensor) {
  const TemporaryFolder folder;
  for (const BadFile& bad : bad_files()) {
    SCOPED_TRACE(bad.name);
    const auto path = folder / (bad.name + ".safetensors");
    write(path, bad.bytes);
    const std::string message = message_of([&] { read_safetensors(path); });
    EXPECT_THAT(message, ::testing::HasSubstr(path.string()));
    for (const std::string& part : bad.message) EXPECT_THAT(message, ::testing::HasSubstr(part));
    EXPECT_LT(message.size(), 1000U);
  }
}

TEST(Safetensors, TheGoodTwinOfTheBadFilesIsRead) {
  const TemporaryFolder folder;
  write(folder / "a", file_of('{' + entry("w", "F32", "[2]", "[0,8]") + '}', 8));
  EXPECT_EQ(read_safetensors(folder / "a").tensors.size(), 1U);
}

TEST(Safetensors, RefusesAnAbsurdHeaderLengthEvenWhereTheFileIsLongEnough) {
  const TemporaryFolder folder;
  write(folder / "a", with_length(200'000'000, "{}"));
  std::filesystem::resize_file(folder / "a", 300'000'000);  // sparse
  EXPECT_THAT(message_of([&] { read_safetensors(folder / "a"); }),
              ::testing::HasSubstr("at most 100000000"));
}

TEST(Safetensors, NamesAMissingFileAndAFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { read_safetensors(folder / "none"); }),
              ::testing::AllOf(::testing::HasSubstr("none"), ::testing::HasSubstr("No such file")));
  EXPECT_THAT(message_of([&] { read_safetensors(folder / ""); }),
              ::testing::HasSubstr("received a folder"));
}

TEST(OpenSafetensors, CopiesIntoAnyLayoutAndDtypeAndMovesTheVersion) {
  const TemporaryFolder folder;
  const at::Tensor values = at::arange(12, at::kFloat).reshape({3, 4});
  write_safetensors(folder / "a", {{"w", values}});
  const StoredTensor stored = open_safetensors(folder / "a").tensors.at(0);
  EXPECT_EQ(stored.name, "w");
  EXPECT_EQ(stored.dtype, at::kFloat);
  EXPECT_EQ(stored.shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_TRUE(at::equal(stored.read(), values));
  const auto like = at::TensorOptions().dtype(at::kFloat);
  for (const at::Tensor& target :
       {at::zeros({3, 4}, like), at::zeros({4, 3}, like).t(),
        at::zeros({3, 8}, like).slice(1, 2, 6), at::zeros({3, 4}, like.dtype(at::kDouble)),
        at::zeros({3, 4}, like.dtype(at::kBFloat16))}) {
    const auto version = target._version();
    stored.copy_to(target);
    EXPECT_TRUE(at::equal(target.to(at::kFloat), values)) << target;
    EXPECT_GT(target._version(), version);
  }
  EXPECT_ANY_THROW(stored.copy_to(at::zeros({3, 2}, like)));
}

/// Values are read on request; damage that the header does not show is found before.
TEST(OpenSafetensors, ReadsLaterButRefusesAtOnce) {
  const TemporaryFolder folder;
  for (const BadFile& bad : bad_files()) {
    SCOPED_TRACE(bad.name);
    write(folder / "bad", bad.bytes);
    EXPECT_THAT(message_of([&] { open_safetensors(folder / "bad"); }),
                ::testing::HasSubstr(bad.message.front()));
  }
  write_safetensors(folder / "a", {{"w", at::ones({4})}});
  const StoredTensorFile file = open_safetensors(folder / "a");
  std::filesystem::resize_file(folder / "a", std::filesystem::file_size(folder / "a") - 1);
  EXPECT_THAT(message_of([&] { file.tensors.at(0).read(); }, 1),
              ::testing::HasSubstr("an end of file before its time"));
}

TEST(Safetensors, RefusesToWriteWhatCouldNotBeReadAgain) {
  const TemporaryFolder folder;
  const at::Tensor one_value = at::ones({1});
  const auto refused = [&](const NamedParameters& tensors) {
    const std::string message = message_of([&] { write_safetensors(folder / "a", tensors); });
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    return message;
  };
  EXPECT_THAT(refused({{"w", one_value}, {"w", one_value}}), ::testing::HasSubstr("w"));
  EXPECT_THAT(refused({{"__metadata__", one_value}}), ::testing::HasSubstr("__metadata__"));
  EXPECT_THAT(refused({{"w", at::Tensor()}}), ::testing::HasSubstr("undefined"));
  EXPECT_THAT(refused({{"w", one_value.to(at::kComplexDouble)}}), ::testing::HasSubstr("BF16"));
  EXPECT_THAT(refused({{"\xff", one_value}}), ::testing::HasSubstr("UTF-8"));
}

/// Limits files to `bytes`; writing beyond that fails instead of ending the process.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(Safetensors, AWriteThatFailsHalfWayKeepsTheOldFileAndLeavesNoPartialOne) {
  const TemporaryFolder folder;
  const NamedParameters old{{"w", at::zeros({4})}};
  write_safetensors(folder / "a", old);
  {
    const FileSizeLimit limit(4096);
    const std::string message = message_of(
        [&] {
          write_safetensors(folder / "a", {{"w", at::ones({10'000})}});
        },
        1);
    EXPECT_THAT(message, ::testing::HasSubstr((folder / "a").string()));
  }
  expect_same(read_safetensors(folder / "a").tensors, old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / ""), {}), 1);
}

TEST(Safetensors, NamesAFolderThatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { write_safetensors(folder / "none/a", {}); }, 1),
              ::testing::HasSubstr("none/a"));
}

TEST(Safetensors, ChecksumsAreThoseOfTheBytesOfEachPart) {
  const TemporaryFolder folder;
  const TensorChecksums written = write_safetensors(
      folder / "a", {{"w", at::arange(12).reshape({3, 4}).t()}, {"b", at::ones({5})}});
  EXPECT_EQ(safetensors_checksums(folder / "a"), written);
  const std::string content = read_file(folder / "a");
  // "w" is int64 and comes first, "b" is the end of the file.
  EXPECT_EQ(written.tensors.at("b"), checksum_of(content.substr(content.size() - 20)));
  EXPECT_EQ(written.tensors.at("w"), checksum_of(content.substr(content.size() - 20 - 96, 96)));
  EXPECT_EQ(written.header, checksum_of(content.substr(0, content.size() - 20 - 96)));

  write_stored_safetensors(folder / "b", stored({{"w", at::arange(12)}, {"b", at::zeros({5})}}));
  EXPECT_NE(safetensors_checksums(folder / "b").tensors.at("b"), written.tensors.at("b"));
}

}  // namespace
}  // namespace accrue::models
