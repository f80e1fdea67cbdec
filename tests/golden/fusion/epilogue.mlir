// RUN: pydisc opt %s --passes=fuse | filecheck %s

"disc_shape.symbolic_dim"() {sym_name = "S0", min = 0 : i64} : () -> ()

// The bias and the activation go into the epilogue of the dot; the row sum needs whole rows and does not.
// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = "disc.fusion"
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.add
// CHECK: stablehlo.tanh
// CHECK: kind = "dot"
// CHECK: %[[Z:.*]] = "disc.fusion"(%[[Y]])
// CHECK: stablehlo.reduce
// CHECK: kind = "row"
// CHECK: return %[[Z]]
func.func @main(%x: tensor<?x8xf32, [@S0, 8]>, %w: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<?xf32, [@S0]> {
  %d0 = "disc_shape.dim"() {symbol = @S0} : () -> index
  %c4 = arith.constant 4 : index
  %shape = tensor.from_elements %d0, %c4 : tensor<2xindex>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x8xf32, [@S0, 8]>, tensor<8x4xf32>) -> tensor<?x4xf32, [@S0, 4]>
  %1 = stablehlo.dynamic_broadcast_in_dim %b, %shape, dims = [1] : (tensor<4xf32>, tensor<2xindex>) -> tensor<?x4xf32, [@S0, 4]>
  %2 = stablehlo.add %0, %1 : tensor<?x4xf32, [@S0, 4]>
  %3 = stablehlo.tanh %2 : tensor<?x4xf32, [@S0, 4]>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<?x4xf32, [@S0, 4]>, tensor<f32>) -> tensor<?xf32, [@S0]>
  return %4 : tensor<?xf32, [@S0]>
}
