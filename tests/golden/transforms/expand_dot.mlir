// RUN: pydisc opt %s --passes=expand-dot | filecheck %s

"disc_shape.symbolic_dim"() {sym_name = "S0", min = 0 : i64} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-NOT: dot_general
// CHECK: %[[P:.*]] = stablehlo.multiply
// CHECK-SAME: tensor<?x4x8xf64, [@S0, 4, 8]>
// CHECK: stablehlo.reduce(%[[P]] init: {{.*}}) applies stablehlo.add across dimensions = [2]
func.func @main(%x: tensor<?x8xf64, [@S0, 8]>, %w: tensor<8x4xf64>) -> tensor<?x4xf64, [@S0, 4]> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x8xf64, [@S0, 8]>, tensor<8x4xf64>) -> tensor<?x4xf64, [@S0, 4]>
  return %0 : tensor<?x4xf64, [@S0, 4]>
}
